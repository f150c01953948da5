// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA IPC, and memory handles as descriptors. A process can make an IPC
// handle, but not open another process's. UCX takes this for "peer not
// reachable" and uses the network; if cuIpcGetMemHandle failed, it would report
// an error. Unlike with a real driver, a process can open its own.
#include "calls.h"
#include "context.h"

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::sim {
namespace {

struct Content {
    int process;
    uint64_t what; // an address, or a handle
};

CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle &handle)
{
    Content from;
    memcpy(&from, &handle, sizeof(from));
    std::lock_guard guard(memory().lock);
    Allocation *found = memory().find(from.what);
    if (from.process != getpid() || !found)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    const Block &source = *found->block;
    const uint64_t size = found->size, begin = found->base - source.base;
    Block *block = memory().add_block(Kind::opened, source.device,
                                      source.extent, current_context());
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = block->base + begin;
    memory().enter(*block, *out, size);
    return CUDA_SUCCESS;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(driver, cuIpcGetMemHandle, CUipcMemHandle *out, CUdeviceptr address)
{
    std::shared_lock guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!out || !found || found->kind != Kind::device)
        return CUDA_ERROR_INVALID_VALUE;
    const Content content{getpid(), found->base};
    memset(out, 0, sizeof(*out));
    memcpy(out, &content, sizeof(content));
    return CUDA_SUCCESS;
}

#undef cuIpcOpenMemHandle
SIM_ENTRY_BOTH(context, cuIpcOpenMemHandle, _v2, open_handle(out, handle),
               CUdeviceptr *out, CUipcMemHandle handle, unsigned)

SIM_ENTRY(driver, cuIpcCloseMemHandle, CUdeviceptr address)
{
    std::lock_guard guard(memory().lock);
    Allocation *found = memory().find(address);
    if (!found || found->kind != Kind::opened)
        return CUDA_ERROR_INVALID_VALUE;
    memory().free(*found);
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(driver, cuIpcGetEventHandle, CUDA_ERROR_NOT_SUPPORTED,
             CUipcEventHandle *, CUevent)
SIM_ENTRY_IS(driver, cuIpcOpenEventHandle, CUDA_ERROR_NOT_SUPPORTED, CUevent *,
             CUipcEventHandle)

// The descriptor refers to a file that contains the handle.
SIM_ENTRY(driver, cuMemExportToShareableHandle, void *out,
          CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
          unsigned long long flags)
{
    std::shared_lock guard(memory().lock);
    auto found = memory().handles.find(handle);
    if (!out || flags || found == memory().handles.end())
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        found->second->properties.requestedHandleTypes != type)
        return CUDA_ERROR_NOT_SUPPORTED;
    const Content content{getpid(), handle};
    const int fd = memfd_create("cuda_sim-handle", MFD_CLOEXEC);
    if (fd < 0 || pwrite(fd, &content, sizeof(content), 0) < 0)
        return CUDA_ERROR_UNKNOWN;
    *static_cast<int *>(out) = fd;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuMemImportFromShareableHandle,
          CUmemGenericAllocationHandle *out, void *file,
          CUmemAllocationHandleType type)
{
    Content from{};
    std::lock_guard guard(memory().lock);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread(int(intptr_t(file)), &from, sizeof(from), 0) != sizeof(from) ||
        from.process != getpid())
        return CUDA_ERROR_NOT_SUPPORTED;
    auto found = memory().handles.find(from.what);
    if (!out || found == memory().handles.end())
        return CUDA_ERROR_INVALID_VALUE;
    *out                   = memory().next_id();
    memory().handles[*out] = std::make_shared<PhysicalHandle>(PhysicalHandle{
        found->second->extent, found->second->properties, *out, 1});
    return CUDA_SUCCESS;
}
