// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../gpu.h"
#include "context.h"
#include <atomic>

namespace ucx_ib_dmabuf {

// NVIDIA's GPUs, if there is a libcuda, a GPU and one that can export its
// memory; reported if only the last is missing. Never calls cuInit(): before
// the program does there are no GPUs yet, and no memory of theirs. At most one
// of them may watch().
std::unique_ptr<gpu_vendor> find_cuda();

// Device memory is what is memory of one GPU: neither managed memory, which
// moves between GPU and host, nor host memory that CUDA has pinned. Everything
// is allowed while streams capture, and leaves contexts as they were.
class cuda_vendor final : public gpu_vendor {
public:
    explicit cuda_vendor(const driver &cuda);

    // Whether any GPU can export its memory
    // (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED); no is reported once. True as
    // long as CUDA is not initialized.
    bool can_export() const;

    // memory.cc. UCS_ERR_UNSUPPORTED: the driver does not tell where the memory
    // begins and ends (logged); UCS_ERR_BUSY: it may a moment later.
    ucs_status_t describe(uintptr_t address, extent *out) override;
    std::unique_ptr<session> begin(uintptr_t address) override;
    bool is_current(uintptr_t address, uint64_t identity) override;

    // export.cc. A failure is logged with its cause. UCS_ERR_UNSUPPORTED: this
    // memory, GPU or driver exports none; UCS_ERR_NO_MEMORY: no room, BAR1's
    // say.
    uintptr_t export_begin(uintptr_t address) override;
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override;
    ucs_status_t export_range_pcie(uintptr_t address, size_t length,
                                   int *fd) override;
    size_t granularity() const override { return page_size_; }

    const char *name() const noexcept override { return "CUDA"; }
    ucs_memory_type_t memory_type() const noexcept override
    {
        return UCS_MEMORY_TYPE_CUDA;
    }

    // bar1.cc. 90 % of the GPU's BAR1, through which NICs reach it, as NVML
    // tells; no limit where BAR1 is as large as the GPU's memory, or the GPU is
    // coherent.
    size_t max_registered(int device) override;

    // piece.cc. In use is a GPU whose primary context is active, or that the
    // calling thread's current context is of.
    int gpu_count() override;
    std::unique_ptr<piece> allocate_piece(int gpu) override;

    // copy.cc. In a stream of our own: neither waits for a kernel, also not for
    // one that writes the memory, which the program must have waited for before
    // it sends.
    ucs_status_t copy_to_host(void *host, uintptr_t device,
                              size_t length) override;
    ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                size_t length) override;

    // events.cc
    bool may_be_device(uintptr_t address,
                       size_t length) const noexcept override;
    void watch(listener &told) noexcept override;
    const std::atomic<bool> &events_need_refresh() const noexcept override;
    void refresh_events() noexcept override;

private:
    ucs_status_t export_mapped(mapping_type how, uintptr_t address,
                               size_t length, int *fd);
    bool is_in_use(CUdevice device) const;

    const driver &cuda_;
    const size_t page_size_;
    listener *told_ = nullptr;
    std::atomic<bool> events_complete_{false};
};

// Bytes, as NVML tells them (nvmlBAR1Memory_t; its ABI is fixed).
struct bar1_memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};

// What NICs reach a GPU through. False where NVML does not tell. Thread-safe;
// calls the dynamic loader.
bool read_bar1(const char *bus_id, bar1_memory *memory);

// Whether the GPU has a coherent link to the host: such ones do not need BAR1,
// but for Data Direct.
bool is_coherent(const driver &cuda, CUdevice device);

// Copies between memory of any kind, of any GPUs and of the host, and returns
// when the bytes are there; in a stream of our own, which waits for no kernel.
// No context need be current. `gpu` is one of the two addresses: the one that
// is more likely a GPU's. What CUDA does not know, both of them, is the host's.
// A failure is logged. Thread-safe.
ucs_status_t copy_memory(const driver &cuda, void *to, const void *from,
                         size_t length, const void *gpu);

} // namespace ucx_ib_dmabuf
