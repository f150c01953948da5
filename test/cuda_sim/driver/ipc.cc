// SPDX-License-Identifier: BSD-3-Clause
//
// CUDA IPC, and memory handles as descriptors. A process can make an IPC
// handle, but opens another process's only with CUDA_SIM_IPC=all. UCX takes
// this for "peer not reachable"; if cuIpcGetMemHandle failed, it would report
// an error. Unlike with a real driver, a process can open its own.
#include "calls.h"
#include "context.h"
#include "machine.h"

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::sim {
namespace {

struct Content {
    int process;
    uint64_t what; // an address, or a handle
};

struct IpcContent {
    int process, device, file;
    uint64_t address, size, begin; // of the allocation, which begins in ...
    uint64_t offset, extent_size;  // ... this extent of the file
};
static_assert(sizeof(IpcContent) <= sizeof(CUipcMemHandle));

// Returns null if the process, or its memory, cannot be reached.
std::shared_ptr<Extent> extent_of(const IpcContent &from)
{
    if (from.process == getpid()) {
        Allocation *found = memory().find(from.address);
        return found ? found->block->extent : nullptr;
    }
    if (!settings().ipc_all || size_t(from.device) >= memory().devices.size())
        return nullptr;
    const std::string path = "/proc/" + std::to_string(from.process) + "/fd/" +
                             std::to_string(from.file);
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0)
        return nullptr;
    auto extent =
        std::make_shared<Extent>(*memory().devices[size_t(from.device)], file,
                                 from.offset, from.extent_size);
    close(file);
    return extent->data == MAP_FAILED ? nullptr : extent;
}

CUresult open_handle(CUdeviceptr *out, const CUipcMemHandle &handle)
{
    IpcContent from;
    memcpy(&from, &handle, sizeof(from));
    std::lock_guard guard(memory().lock);
    std::shared_ptr<Extent> extent = extent_of(from);
    if (!extent)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    Block *block = memory().add_block(Kind::opened, from.device,
                                      std::move(extent), current_context());
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = block->base + from.begin;
    memory().enter(*block, *out, from.size);
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
    const Block &block = *found->block;
    const IpcContent content{getpid(),
                             block.device,
                             block.extent->owner.fd,
                             found->base,
                             found->size,
                             found->base - block.base,
                             block.extent->offset,
                             block.extent->size};
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
