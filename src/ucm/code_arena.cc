// SPDX-License-Identifier: BSD-3-Clause
#include "code_arena.h"
#include "maps.h"
#include <algorithm>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 // a kernel before 4.17 takes it for a hint
#endif

namespace ucx_ib_dmabuf::ucm {
namespace {

// A page is 42 hooks. Enough for all is looked for once, and a page where a
// small library leaves no more free around it.
constexpr uintptr_t page         = 0x1000;
constexpr uintptr_t roomy_size   = 2 * page;
constexpr uintptr_t max_distance = uintptr_t(1) << 30;
// Better left free on both sides: a heap or a stack there may grow.
constexpr uintptr_t margin       = 1 << 20;
constexpr uintptr_t end_of_space = uintptr_t(1) << 47;

uintptr_t distance(uintptr_t a, uintptr_t b)
{
    return (a > b) ? a - b : b - a;
}

// The nearest place of a size with so much free on both sides, or 0.
class place {
public:
    place(uintptr_t near, uintptr_t size, uintptr_t beside)
        : near_(near), size_(size), margin_(beside)
    {
    }

    void look_between(uintptr_t end, uintptr_t begin)
    {
        const uintptr_t low = end + margin_;
        if ((begin >= end_of_space) || (low + size_ + margin_ > begin)) {
            return;
        }
        const uintptr_t found =
            std::clamp(near_, low, begin - margin_ - size_) & ~(page - 1);
        if ((best_ == 0) || (distance(found, near_) < distance(best_, near_))) {
            best_ = found;
        }
    }
    // Null if it is none, or too far away.
    std::span<uint8_t> found() const
    {
        return (distance(best_, near_) < max_distance)
                   ? std::span(reinterpret_cast<uint8_t *>(best_), size_)
                   : std::span<uint8_t>();
    }

private:
    const uintptr_t near_, size_, margin_;
    uintptr_t best_ = 0;
};

// The nearest place that nothing is mapped at, or 0. CUDA and its like reserve
// gigabytes around libraries, so guesses do not find it, and the kernel puts
// small libraries where little more is free: between such reservations, of
// which it aligns some to 2 MiB.
std::span<uint8_t> nearest_gap(uintptr_t near)
{
    place roomy(near, roomy_size, margin), tight(near, page, 0);
    uintptr_t last = margin; // nothing is mapped at 0

    each_mapping([&](uintptr_t begin, uintptr_t end, const char *) {
        roomy.look_between(last, begin);
        tight.look_between(last, begin);
        last = end;
    });
    return roomy.found().empty() ? tight.found() : roomy.found();
}

std::span<uint8_t> map(const void *near)
{
    constexpr int attempts = 3; // another thread may have been quicker

    for (int i = 0; i < attempts; ++i) {
        const std::span<uint8_t> gap = nearest_gap(uintptr_t(near));
        if (gap.empty()) {
            return {};
        }
        void *const memory =
            mmap(gap.data(), gap.size(), PROT_READ | PROT_WRITE | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (memory == gap.data()) {
            return gap;
        }
        if (memory != MAP_FAILED) {
            munmap(memory, gap.size());
        }
    }
    return {}; // or executable memory is forbidden
}

} // namespace

uint8_t *code_arena::reserve(const void *near, size_t size)
{
    if (memory_.empty() || (used_ + size > memory_.size()) ||
        (distance(uintptr_t(memory_.data()), uintptr_t(near)) >=
         max_distance)) {
        memory_ = map(near);
        used_   = 0;
    }
    return memory_.empty() ? nullptr : memory_.data() + used_;
}

} // namespace ucx_ib_dmabuf::ucm
