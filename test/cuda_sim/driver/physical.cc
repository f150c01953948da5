// SPDX-License-Identifier: BSD-3-Clause
#include "physical.h"
#include "settings.h"

#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::sim {

Extent::~Extent()
{
    owner.release(*this);
}

PhysicalMemory::PhysicalMemory(int device, uint64_t capacity)
    : device_(device), capacity_(capacity)
{
    char name[32];
    snprintf(name, sizeof(name), "cuda_sim-gpu%d", device_);
    fd_ = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // udmabuf requires this seal.
    if (fd_ < 0 || fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK))
        complain("cannot make device memory: %m");
}

std::shared_ptr<Extent> PhysicalMemory::allocate(uint64_t size)
{
    size = round_up(size, block_size);
    if (size > capacity_ - used_)
        return nullptr;
    auto offset = free_.take(size);
    if (!offset) {
        if (!grow(size))
            return nullptr;
        offset = free_.take(size);
    }
    used_ += size;
    return std::make_shared<Extent>(*this, *offset, size);
}

char *PhysicalMemory::host(uint64_t offset, uint64_t *contiguous) const
{
    uint64_t inside = offset % window_size;
    *contiguous     = window_size - inside;
    return windows_[offset / window_size] + inside;
}

void PhysicalMemory::populate(Extent &extent, uint64_t offset,
                              uint64_t size) const
{
    constexpr uint64_t many = 64 << 10, page = 4096; // bytes
    if (size < many || extent.written.exchange(true, std::memory_order_relaxed))
        return;
    const uint64_t end = round_up(offset + size, page);
    for (uint64_t at = offset / page * page, contiguous; at < end;
         at += contiguous) {
        char *from = host(at, &contiguous);
        // A kernel before 5.14 refuses; faults then make the pages.
        (void)madvise(from, std::min(end - at, contiguous),
                      MADV_POPULATE_WRITE);
    }
}

void PhysicalMemory::release(const Extent &extent)
{
    used_ -= extent.size;
    if (extent.stand_in)
        return;
    // The pages leave the file. A dma-buf made of them keeps them, and the next
    // owner of this range gets new ones.
    if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  off_t(extent.offset), off_t(extent.size))) {
        complain("cannot release device memory: %m");
        return;
    }
    free_.add(extent.offset, extent.size);
}

bool PhysicalMemory::grow(uint64_t size)
{
    uint64_t more = round_up(size, window_size);
    if (ftruncate(fd_, off_t(grown_ + more))) {
        complain("cannot extend device memory: %m");
        return false;
    }
    for (uint64_t end = grown_ + more; grown_ < end; grown_ += window_size) {
        void *window = mmap(nullptr, window_size, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_NORESERVE, fd_, off_t(grown_));
        if (window == MAP_FAILED) {
            complain("cannot map device memory: %m");
            return false;
        }
        windows_.push_back(static_cast<char *>(window));
        free_.add(grown_, window_size);
    }
    return true;
}

} // namespace ucx_ib_dmabuf::sim
