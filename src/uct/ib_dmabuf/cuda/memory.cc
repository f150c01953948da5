// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"
#include "../report.h"
#include "capture.h"
#include <iterator>
#include <ucs/debug/log_def.h>

namespace ucx_ib_dmabuf {
namespace {

struct attributes {
    CUmemorytype type           = static_cast<CUmemorytype>(0);
    unsigned managed            = 0;
    unsigned long long identity = 0;
    int device                  = -1;
    CUcontext context           = nullptr;
    unsigned ipc_capable        = 0;
    CUdeviceptr base            = 0;
    size_t size                 = 0;
    CUmemoryPool pool           = nullptr;

    // What is used of cuMemAlloc() and its kin.
    bool is_ordinary() const { return ipc_capable != 0; }
    bool is_mapped() const
    {
        return !is_ordinary() && (context == nullptr) && (pool == nullptr);
    }
};

// The newest attribute is older than exports (CUDA 11.7).
bool query(const driver &cuda, CUdeviceptr address, attributes *out)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *values[] = {&out->type,   &out->managed, &out->identity,
                      &out->device, &out->context, &out->ipc_capable,
                      &out->base,   &out->size,    &out->pool};

    CUresult result =
        cuda.pointer_get_attributes(std::size(names), names, values, address);
    if (result != CUDA_SUCCESS) {
        // Nothing of CUDA's there, or a process that is on its way out.
        ucs_trace("ib_dmabuf: cuPointerGetAttributes(0x%llx): %s",
                  static_cast<unsigned long long>(address),
                  cuda.error(result).c_str());
        return false;
    }
    return static_cast<int>(out->type) != 0;
}

cuda_memory::kind kind_of(const attributes &found)
{
    if (found.managed) {
        return cuda_memory::kind::managed;
    }
    return (found.type == CU_MEMORYTYPE_DEVICE) ? cuda_memory::kind::device
                                                : cuda_memory::kind::host;
}

// The attributes give the whole reservation that a VMM segment is mapped in, as
// NVIDIA documents them, and perhaps the whole chunk of a pool.
// cuMemGetAddressRange gives the segment or the allocation, but needs a context
// (UCX pull request 10545): one for all segments of a range, as it may have to
// be brought about.
ucs_status_t narrow(const driver &cuda, uintptr_t address, attributes *found,
                    std::optional<scoped_context> *context)
{
    if (!context->has_value()) {
        context->emplace(cuda, address);
    }
    CUresult result = (*context)->result();

    if (result == CUDA_SUCCESS) {
        result =
            cuda.mem_get_address_range(&found->base, &found->size, address);
    }
    switch (result) {
    case CUDA_SUCCESS:
        return UCS_OK;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_NOT_FOUND: // released in the meantime
        return UCS_ERR_NO_ELEM;
    default:
        return (cuda.failed("cuMemGetAddressRange", result, address, 1,
                            "see the NVIDIA driver's log (dmesg)") ==
                UCS_ERR_BUSY)
                   ? UCS_ERR_BUSY
                   : UCS_ERR_UNSUPPORTED;
    }
}

} // namespace

ucs_status_t cuda_segment_at(const driver &cuda, uintptr_t address,
                             cuda_memory *out,
                             std::optional<scoped_context> *context)
{
    relaxed_capture relaxed(cuda);
    std::optional<scoped_context> own;
    attributes found;

    if (!query(cuda, address, &found)) {
        return UCS_ERR_NO_ELEM;
    }
    const cuda_memory::kind kind = kind_of(found);
    if ((kind == cuda_memory::kind::device) && !found.is_ordinary()) {
        ucs_status_t status =
            narrow(cuda, address, &found, context ? context : &own);
        if (status != UCS_OK) {
            return status;
        }
    }
    *out = {static_cast<uintptr_t>(found.base),
            found.size,
            found.identity,
            found.device,
            kind,
            found.is_mapped()};
    return UCS_OK;
}

bool cuda_is_current(const driver &cuda, uintptr_t address, uint64_t identity)
{
    unsigned long long found = 0;
    relaxed_capture relaxed(cuda);

    return (cuda.pointer_get_attribute(&found, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                       address) == CUDA_SUCCESS) &&
           (found == identity);
}

bool cuda_can_export(const driver &cuda, text *why)
{
    int count = 0;

    if (cuda.get_handle_for_address_range == nullptr) {
        *why = "this NVIDIA driver has no cuMemGetHandleForAddressRange: "
               "update it to one for CUDA 11.7 or later";
        return false;
    }
    cuda.device_get_count(&count);
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        int supported   = 0;
        if ((cuda.device_get(&device, i) == CUDA_SUCCESS) &&
            (cuda.device_get_attribute(&supported,
                                       CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
                                       device) == CUDA_SUCCESS) &&
            supported) {
            return true;
        }
    }
    *why = format("none of the %d GPUs can export its memory as a dma-buf "
                  "(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0): install "
                  "NVIDIA's open kernel modules, on Linux 5.12 or later",
                  count);
    return false;
}

} // namespace ucx_ib_dmabuf
