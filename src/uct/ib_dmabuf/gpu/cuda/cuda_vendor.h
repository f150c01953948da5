// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "driver.h"
#include <atomic>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <uct/ib_dmabuf/ucx/ucs.h>

namespace ucx_ib_dmabuf {

// Returns NVIDIA's GPUs; nullptr without libcuda, a GPU, or one that can export
// its memory. Reports only that none can export. Never calls cuInit(): until
// the program does, no GPU memory exists. At most one object may watch().
std::unique_ptr<gpu_vendor> find_cuda();

// copy.cc. Copies between memory of any kind, of any GPUs and of the host, and
// returns when the bytes have arrived. Uses a stream of our own, which waits
// for no kernel. Needs no current context. `gpu` is that of the two addresses
// which more likely belongs to a GPU. If CUDA knows neither, both are treated
// as host memory; unless `may_be_host`, this fails if CUDA does not know `gpu`,
// as host memory may have replaced it. Logs failures. Thread-safe.
ucs_status_t copy_memory(const driver &cuda, void *to, const void *from,
                         size_t length, const void *gpu, bool may_be_host);

// Device memory is memory of one GPU: neither managed memory, which moves
// between GPU and host, nor host memory that CUDA has pinned. All functions may
// run during stream captures, and leave contexts unchanged.
class cuda_vendor final : public gpu_vendor {
public:
    explicit cuda_vendor(const driver &cuda);

    // Whether any GPU can export its memory
    // (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED); reports once if none can. True
    // as long as CUDA is not initialized.
    bool can_export() const;

    // memory.cc. UCS_ERR_UNSUPPORTED: the driver does not report where the
    // memory begins and ends (logged); UCS_ERR_BUSY: a later call may succeed.
    ucs_status_t describe(uintptr_t address, allocation *out) override
    {
        return describe_kind(address, false, out);
    }
    ucs_status_t describe_whole(uintptr_t address, allocation *out) override
    {
        return describe_kind(address, true, out);
    }
    std::shared_ptr<void> begin(uintptr_t address) override;
    // The primary context of the GPU.
    std::shared_ptr<void> keep_context(uintptr_t address) override;
    bool is_current(uintptr_t address, uint64_t identity) override;

    // memory.cc. Failures are logged with their cause. UCS_ERR_UNSUPPORTED:
    // this memory, GPU or driver cannot export; UCS_ERR_NO_MEMORY: no room, in
    // BAR1 for example.
    uintptr_t export_begin(uintptr_t address) override;
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override
    {
        return export_mapped(mapping_type::standard, address, length, fd);
    }
    ucs_status_t export_range_pcie(uintptr_t address, size_t length,
                                   int *fd) override
    {
        return export_mapped(mapping_type::pcie, address, length, fd);
    }
    size_t granularity() const override { return page_size_; }
    ucs_status_t export_mapped(mapping_type how, uintptr_t address,
                               size_t length, int *fd, bool reports = true);

    const char *name() const noexcept override { return "CUDA"; }
    ucs_memory_type_t memory_type() const noexcept override
    {
        return UCS_MEMORY_TYPE_CUDA;
    }

    // 90 % of the GPU's BAR1, through which NICs reach it, from NVML.
    // Unlimited if BAR1 is as large as the GPU's memory, or the GPU is
    // coherent.
    size_t max_registered(int device) override;

    // A GPU is in use if its primary context is active, or if
    // the calling thread's current context belongs to it.
    std::vector<int> gpus_in_use() override;
    std::unique_ptr<probe_buffer> allocate_probe_buffer(int gpu) override;

    // copy.cc. Before it sends, the program must have waited for a kernel that
    // writes the memory.
    ucs_status_t copy_to_host(void *host, uintptr_t device,
                              size_t length) override;
    ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                size_t length) override;

    // UCX's cache of memory types gets the same events.
    bool may_be_device(uintptr_t address, size_t length) const noexcept override
    {
        return !events_complete_ || may_be_allocated(address, length);
    }
    void watch(listener &told) noexcept override;

private:
    ucs_status_t describe_kind(uintptr_t address, bool whole, allocation *out);
    bool is_in_use(CUdevice device) const;

    const driver &cuda_;
    const size_t page_size_;
    listener *told_ = nullptr;
    std::atomic<bool> events_complete_{false};
};

} // namespace ucx_ib_dmabuf
