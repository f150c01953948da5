// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"
#include "../report.h"
#include <ucs/debug/log_def.h>

namespace ucx_ib_dmabuf {
namespace {

struct attributes {
    CUmemorytype type           = static_cast<CUmemorytype>(0);
    unsigned managed            = 0;
    unsigned long long identity = 0;
    int device                  = -1;
    unsigned rdma_capable       = 1;
};

// Drivers before 11.x do not know the last attribute, and fail the whole call.
bool query(const driver &cuda, CUdeviceptr address, attributes *out)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE};
    void *values[] = {&out->type, &out->managed, &out->identity, &out->device,
                      &out->rdma_capable};

    for (unsigned count : {5u, 4u}) {
        CUresult result =
            cuda.pointer_get_attributes(count, names, values, address);
        if (result == CUDA_SUCCESS) {
            return static_cast<int>(out->type) != 0;
        }
        // Nothing of CUDA's there, or a process that is on its way out.
        ucs_trace("ib_dmabuf: cuPointerGetAttributes(0x%llx): %s",
                  static_cast<unsigned long long>(address),
                  cuda.error(result).c_str());
    }
    return false;
}

cuda_memory::kind kind_of(const attributes &found)
{
    if (found.managed) {
        return cuda_memory::kind::managed;
    }
    return (found.type == CU_MEMORYTYPE_DEVICE) ? cuda_memory::kind::device
                                                : cuda_memory::kind::host;
}

uint64_t combine(uint64_t hash, uint64_t identity)
{
    return (hash ^ identity) * 0x9e3779b97f4a7c15ull + 1;
}

// The first segment that holds the address.
ucs_status_t segment_at(const driver &cuda, uintptr_t address, cuda_memory *out)
{
    attributes found;
    CUdeviceptr base = 0;
    size_t size      = 0;

    if (!query(cuda, address, &found)) {
        return UCS_ERR_NO_ELEM;
    }
    CUresult result = cuda.mem_get_address_range(&base, &size, address);
    if (result != CUDA_SUCCESS) {
        ucs_debug("ib_dmabuf: cuMemGetAddressRange(0x%zx): %s", address,
                  cuda.error(result).c_str());
        return UCS_ERR_NO_ELEM;
    }
    *out = {static_cast<uintptr_t>(base),
            size,
            found.identity,
            found.device,
            kind_of(found),
            found.rdma_capable != 0};
    return UCS_OK;
}

} // namespace

ucs_status_t cuda_describe(const driver &cuda, uintptr_t address, size_t length,
                           cuda_memory *out)
{
    const uintptr_t end = address + length;
    cuda_memory whole;

    if ((length == 0) || (end < address)) {
        return UCS_ERR_INVALID_PARAM;
    }
    ucs_status_t status = segment_at(cuda, address, &whole);
    if (status != UCS_OK) {
        return status;
    }

    // cuMemGetAddressRange gives one segment of a VMM range, so a buffer may
    // go on in the next ones. Two ordinary allocations can lie side by side
    // as well: their export is refused by the driver.
    while (whole.base + whole.size < end) {
        cuda_memory next;
        status = segment_at(cuda, whole.base + whole.size, &next);
        if ((status != UCS_OK) || (next.device != whole.device) ||
            (next.type != whole.type) || (next.size == 0) ||
            (next.base != whole.base + whole.size)) {
            return UCS_ERR_INVALID_PARAM;
        }
        whole.size += next.size;
        whole.identity     = combine(whole.identity, next.identity);
        whole.rdma_capable = whole.rdma_capable && next.rdma_capable;
    }
    *out = whole;
    return UCS_OK;
}

bool cuda_is_current(const driver &cuda, uintptr_t address, size_t length,
                     uint64_t identity)
{
    unsigned long long found = 0;
    CUresult result          = cuda.pointer_get_attribute(
                 &found, CU_POINTER_ATTRIBUTE_BUFFER_ID, address);

    if (result != CUDA_SUCCESS) {
        return false;
    }
    if (found == identity) {
        return true;
    }
    cuda_memory now;
    return (cuda_describe(cuda, address, length, &now) == UCS_OK) &&
           (now.identity == identity);
}

bool cuda_can_export(const driver &cuda, std::string *why)
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
