// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_vendor.h"
#include <uct/ib_dmabuf/report.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

cuda_vendor::cuda_vendor(const driver &cuda)
    : cuda_(cuda), page_size_(static_cast<size_t>(sysconf(_SC_PAGESIZE)))
{
}

bool cuda_vendor::can_export() const
{
    const auto report = [](const text &why) {
        warn_once("no GPU exports", format("%s. Messages in GPU memory are "
                                           "staged through host memory",
                                           why.c_str()));
        return false;
    };
    int count = 0;

    if (cuda_.get_handle_for_address_range == nullptr) {
        return report("this NVIDIA driver has no cuMemGetHandleForAddressRange"
                      ": update it to one for CUDA 11.7 or later");
    }
    if (cuda_.device_get_count(&count) != CUDA_SUCCESS) {
        return true;
    }
    for (int i = 0; i < count; ++i) {
        CUdevice device = 0;
        int supported   = 0;
        if ((cuda_.device_get(&device, i) == CUDA_SUCCESS) &&
            (cuda_.device_get_attribute(&supported,
                                        CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
                                        device) == CUDA_SUCCESS) &&
            supported) {
            return true;
        }
    }
    return report(
        format("none of the %d GPUs can export its memory as a dma-buf "
               "(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0): install "
               "NVIDIA's open kernel modules, on Linux 5.12 or later",
               count));
}

std::unique_ptr<gpu_vendor> find_cuda()
{
    const driver *cuda = driver::get();

    if (cuda == nullptr) {
        return nullptr;
    }
    auto found = std::make_unique<cuda_vendor>(*cuda);
    return found->can_export() ? std::move(found) : nullptr;
}

} // namespace ucx_ib_dmabuf
