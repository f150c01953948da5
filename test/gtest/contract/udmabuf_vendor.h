// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <mutex>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>

// A vendor with host memory as its GPU: real dma-bufs (/dev/udmabuf), and
// nothing of CUDA's. The test reads and writes the memory at its address.
// Throws if a system call fails.
class udmabuf_vendor final : public ucx_ib_dmabuf::gpu_vendor {
    using ucs_status_t      = ucx_ib_dmabuf::ucs_status_t;
    using ucs_memory_type_t = ucx_ib_dmabuf::ucs_memory_type_t;
    using enum ucx_ib_dmabuf::ucs_status_t;

public:
    static constexpr size_t memory_size = size_t{256} << 20;

    udmabuf_vendor();
    ~udmabuf_vendor() override;

    // Returns whole pages of zeros, at the lowest address with room: an
    // allocation, or joined segments of `size` bytes each.
    uintptr_t allocate(size_t size, unsigned segments = 0);
    // Releases an allocation, or all segments allocated with this first one.
    void release(uintptr_t address);
    // Replaces an allocation or a segment by other memory, of zeros.
    void replace(uintptr_t address);
    // Notifies the listener that events are missed, and sends no more events.
    void miss_events(const char *why);

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::allocation *out) override;
    bool is_current(uintptr_t address, uint64_t identity) override;
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override;
    size_t granularity() const override { return page_; }
    const char *name() const noexcept override { return "udmabuf"; }
    // Any type but CUDA's.
    ucs_memory_type_t memory_type() const noexcept override
    {
        return ucx_ib_dmabuf::UCS_MEMORY_TYPE_ROCM;
    }
    bool may_be_device(uintptr_t address, size_t) const noexcept override
    {
        return address - base_ < memory_size;
    }
    size_t max_registered(int) override { return SIZE_MAX; }
    ucs_status_t copy_to_host(void *host, uintptr_t device,
                              size_t length) override;
    ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                size_t length) override;
    void watch(listener &told) noexcept override { told_ = &told; }

private:
    struct block {
        size_t size;
        uint64_t identity;
        bool joins;   // a segment
        bool goes_on; // the next one was allocated with it
    };
    using blocks = std::map<uintptr_t, block>;

    blocks::const_iterator find(uintptr_t address) const;
    bool has(uintptr_t address, size_t length) const;
    void tell(uintptr_t address, size_t length);
    void clear(uintptr_t address, size_t length);

    const size_t page_;
    int memory_     = -1; // a memory file
    int device_     = -1;
    uintptr_t base_ = 0; // address of its mapping
    std::mutex mutex_;
    blocks blocks_;
    uint64_t last_identity_ = 0;
    listener *told_         = nullptr;
};
