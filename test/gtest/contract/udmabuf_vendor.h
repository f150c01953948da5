// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <map>
#include <mutex>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <system_error>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <unistd.h>
#include <utility>

// A vendor with host memory as its GPU: real dma-bufs (/dev/udmabuf), and
// nothing of CUDA's. The test reads and writes the memory at its address.
// Throws if a system call fails.
class udmabuf_vendor final : public ucx_ib_dmabuf::gpu_vendor {
    using allocation        = ucx_ib_dmabuf::allocation;
    using ucs_status_t      = ucx_ib_dmabuf::ucs_status_t;
    using ucs_memory_type_t = ucx_ib_dmabuf::ucs_memory_type_t;
    using enum ucx_ib_dmabuf::ucs_status_t;

public:
    static constexpr size_t memory_size = size_t{256} << 20;

    udmabuf_vendor()
    {
        constexpr char path[] = "/dev/udmabuf";

        memory_ = memfd_create("gpu", MFD_ALLOW_SEALING | MFD_CLOEXEC);
        check(memory_ >= 0, "memfd_create");
        check(ftruncate(memory_, memory_size) == 0, "ftruncate");
        check(fcntl(memory_, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "F_ADD_SEALS");
        device_ = open(path, O_RDWR | O_CLOEXEC);
        check(device_ >= 0, path);
        void *mapped = mmap(nullptr, memory_size, PROT_READ | PROT_WRITE,
                            MAP_SHARED, memory_, 0);
        check(mapped != MAP_FAILED, "mmap");
        base_ = reinterpret_cast<uintptr_t>(mapped);
    }
    ~udmabuf_vendor() override
    {
        munmap(reinterpret_cast<void *>(base_), memory_size);
        close(device_);
        close(memory_);
    }

    // Returns whole pages of zeros, at the lowest address with room: an
    // allocation, or joined segments of `size` bytes each.
    uintptr_t allocate(size_t size, unsigned segments = 0)
    {
        const unsigned count = std::max(1u, segments);
        uintptr_t place      = base_;
        std::lock_guard<std::mutex> guard(mutex_);

        size = (size + page_ - 1) & ~(page_ - 1);
        for (const auto &[address, one] : blocks_) {
            if (address - place >= count * size) {
                break;
            }
            place = address + one.size;
        }
        if (base_ + memory_size - place < count * size) {
            throw std::bad_alloc();
        }
        for (unsigned i = 0; i < count; ++i) {
            blocks_[place + i * size] = {size, ++last_identity_, segments != 0,
                                         i + 1 < count};
        }
        return place;
    }
    // Releases an allocation, or all segments allocated with this first one.
    void release(uintptr_t address)
    {
        for (bool more = true; more;) {
            const block gone = blocks_.at(address);
            tell(address, gone.size);
            std::lock_guard<std::mutex> guard(mutex_);
            blocks_.erase(address);
            clear(address, gone.size);
            address += gone.size;
            more = gone.goes_on;
        }
    }
    // Replaces an allocation or a segment by other memory, of zeros.
    void replace(uintptr_t address)
    {
        tell(address, blocks_.at(address).size);
        std::lock_guard<std::mutex> guard(mutex_);
        block &one   = blocks_.at(address);
        one.identity = ++last_identity_;
        clear(address, one.size);
    }
    // Notifies the listener that events are missed, and sends no more events.
    void miss_events(const char *why)
    {
        std::exchange(told_, nullptr)->on_events_missed(why);
    }

    ucs_status_t describe(uintptr_t address, allocation *out) override
    {
        std::lock_guard<std::mutex> guard(mutex_);
        const auto at = find(address);

        if (at == blocks_.end()) {
            return UCS_ERR_NO_ELEM;
        }
        *out = {at->first, at->second.size, at->second.identity, 0,
                at->second.joins};
        return UCS_OK;
    }
    bool is_current(uintptr_t address, uint64_t identity) override
    {
        allocation now;
        return (describe(address, &now) == UCS_OK) &&
               (now.identity == identity);
    }
    ucs_status_t export_range(uintptr_t address, size_t length,
                              int *fd) override
    {
        udmabuf_create request{};
        std::lock_guard<std::mutex> guard(mutex_);

        if (!has(address, length) || (address % page_ != 0) ||
            (length % page_ != 0)) {
            return UCS_ERR_INVALID_PARAM;
        }
        request.memfd  = static_cast<unsigned>(memory_);
        request.flags  = UDMABUF_FLAGS_CLOEXEC;
        request.offset = address - base_;
        request.size   = length;
        const int made = ioctl(device_, UDMABUF_CREATE, &request);
        if (made < 0) {
            return UCS_ERR_IO_ERROR;
        }
        *fd = made;
        return UCS_OK;
    }
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
                              size_t length) override
    {
        return copy(host, reinterpret_cast<void *>(device), device, length);
    }
    ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                size_t length) override
    {
        return copy(reinterpret_cast<void *>(device), host, device, length);
    }
    void watch(listener &told) noexcept override { told_ = &told; }

private:
    struct block {
        size_t size;
        uint64_t identity;
        bool joins;   // a segment
        bool goes_on; // the next one was allocated with it
    };
    using blocks = std::map<uintptr_t, block>;

    static void check(bool good, const char *what)
    {
        if (!good) {
            throw std::system_error(errno, std::generic_category(), what);
        }
    }
    void tell(uintptr_t address, size_t length)
    {
        if (told_ != nullptr) {
            told_->on_change(address, length);
        }
    }
    // A dma-buf keeps its pages; the file gets others.
    void clear(uintptr_t address, size_t length)
    {
        check(fallocate(memory_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(address - base_),
                        static_cast<off_t>(length)) == 0,
              "fallocate");
    }
    ucs_status_t copy(void *to, const void *from, uintptr_t device,
                      size_t length)
    {
        std::lock_guard<std::mutex> guard(mutex_);

        if (!has(device, length)) {
            return UCS_ERR_INVALID_ADDR;
        }
        memcpy(to, from, length);
        return UCS_OK;
    }

    // Called with the lock held, as is has().
    blocks::const_iterator find(uintptr_t address) const
    {
        const auto after = blocks_.upper_bound(address);

        if (after == blocks_.begin()) {
            return blocks_.end();
        }
        const auto at = std::prev(after);
        return (address - at->first < at->second.size) ? at : blocks_.end();
    }
    // Returns whether the range is valid and all of it is allocated.
    bool has(uintptr_t address, size_t length) const
    {
        const uintptr_t end = address + length;

        for (auto at = find(address); (address < end) && (at != blocks_.end());
             at      = find(address)) {
            address = at->first + at->second.size;
        }
        return (length - 1 < memory_size) && (address >= end);
    }

    const size_t page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    int memory_        = -1; // a memory file
    int device_        = -1;
    uintptr_t base_    = 0; // address of its mapping
    std::mutex mutex_;
    blocks blocks_;
    uint64_t last_identity_ = 0;
    listener *told_         = nullptr;
};
