// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_vendor.h"
#include <iterator>
#include <new>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/log.h>

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

    bool is_device() const
    {
        return (type == CU_MEMORYTYPE_DEVICE) && !managed;
    }
    // Only memory of cuMemAlloc() and similar functions is IPC capable.
    bool is_ordinary() const { return ipc_capable != 0; }
    bool is_mapped() const
    {
        return !is_ordinary() && (context == nullptr) && (pool == nullptr);
    }
};

// All these attributes are older than exports (CUDA 11.7).
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
        // Not CUDA memory, or the process is exiting.
        log_trace("ib_dmabuf: cuPointerGetAttributes(0x%llx): %s",
                  static_cast<unsigned long long>(address),
                  cuda.error(result).c_str());
        return false;
    }
    return true;
}

// For a mapped VMM segment the attributes describe its whole reservation, as
// NVIDIA documents, and for a pool perhaps its whole chunk.
// cuMemGetAddressRange returns the segment or the allocation, but needs a
// context (UCX pull request 10545).
ucs_status_t narrow(const driver &cuda, uintptr_t address, attributes *found)
{
    scoped_context context(cuda, address);
    CUresult result = context.result();

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

ucs_status_t cuda_vendor::describe(uintptr_t address, allocation *out)
{
    relaxed_capture relaxed(cuda_);
    attributes found;

    if (!query(cuda_, address, &found) || !found.is_device()) {
        return UCS_ERR_NO_ELEM;
    }
    const uint64_t reservation = found.is_mapped() ? found.base : 0;
    if (!found.is_ordinary()) {
        ucs_status_t status = narrow(cuda_, address, &found);
        if (status != UCS_OK) {
            return status;
        }
    }
    *out = {found.base,        found.size,  found.identity,       found.device,
            found.is_mapped(), reservation, found.pool != nullptr};
    return UCS_OK;
}

namespace {

// Makes the context current that queries need.
struct current_context final : exporter::session {
    current_context(const driver &cuda, uintptr_t address)
        : relaxed(cuda), context(cuda, address)
    {
    }
    relaxed_capture relaxed;
    scoped_context context;
};

} // namespace

std::unique_ptr<exporter::session> cuda_vendor::begin(uintptr_t address)
{
    return std::unique_ptr<session>(new (std::nothrow)
                                        current_context(cuda_, address));
}

bool cuda_vendor::is_current(uintptr_t address, uint64_t identity)
{
    unsigned long long found = 0;
    relaxed_capture relaxed(cuda_);

    return (cuda_.pointer_get_attribute(&found, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                        address) == CUDA_SUCCESS) &&
           (found == identity);
}

} // namespace ucx_ib_dmabuf
