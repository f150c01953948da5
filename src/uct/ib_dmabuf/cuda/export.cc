// SPDX-License-Identifier: BSD-3-Clause
#include "export.h"
#include "../report.h"
#include "capture.h"
#include "context.h"
#include <algorithm>

namespace ucx_ib_dmabuf {
namespace {

const char *remedy(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_NOT_SUPPORTED:
        return "this memory or this GPU's driver exports no dma-bufs; NVIDIA's "
               "open kernel modules do, for memory that is GPUDirect RDMA "
               "capable";
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "there is no room left, perhaps in BAR1 (nvidia-smi -q -d "
               "MEMORY); UCX_IB_DMABUF_MAX_SIZE limits what is registered";
    default:
        return "see the NVIDIA driver's log (dmesg)";
    }
}

// An address in the range at which there is memory. The range was rounded to
// pages, and at its beginning there may be nothing: small allocations, which
// are aligned to 256 bytes, share pages.
uintptr_t first_known(const driver &cuda, uintptr_t address, size_t length)
{
    constexpr size_t alignment = 256;
    constexpr size_t page_max  = 65536;
    unsigned long long id;

    for (size_t done = 0; done < std::min(length, page_max);
         done += alignment) {
        if (cuda.pointer_get_attribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                       address + done) == CUDA_SUCCESS) {
            return address + done;
        }
    }
    return address;
}

CUresult export_range(const driver &cuda, uintptr_t address, size_t length,
                      int *fd)
{
    relaxed_capture relaxed(cuda);
    scoped_context context(cuda, first_known(cuda, address, length));

    if (context.result() != CUDA_SUCCESS) {
        return context.result();
    }
    return cuda.get_handle_for_address_range(
        fd, address, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
}

} // namespace

ucs_status_t cuda_export_dmabuf(const driver &cuda, uintptr_t address,
                                size_t length, int *fd)
{
    int exported = -1;

    if (cuda.get_handle_for_address_range == nullptr) {
        return UCS_ERR_UNSUPPORTED; // cuda_can_export() has told why
    }

    CUresult result = export_range(cuda, address, length, &exported);
    if (result != CUDA_SUCCESS) {
        warn_once(format("export %d", static_cast<int>(result)),
                  format("cuMemGetHandleForAddressRange(0x%zx, %zu bytes) "
                         "failed: %s. Messages in this memory are staged "
                         "through host memory: %s",
                         address, length, cuda.error(result).c_str(),
                         remedy(result)));
        return to_status(result);
    }
    *fd = exported;
    return UCS_OK;
}

} // namespace ucx_ib_dmabuf
