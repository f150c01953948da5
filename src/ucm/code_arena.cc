// SPDX-License-Identifier: BSD-3-Clause
#include "code_arena.h"
#include "maps.h"
#include <algorithm>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 // a hint for kernels before 4.17
#endif

namespace ucx_ib_dmabuf::ucm {
namespace {

// A page holds 42 hooks. Prefer room for all hooks; fall back to one page near
// a small library that has little free space around it.
constexpr uintptr_t page         = 0x1000;
constexpr uintptr_t roomy_size   = 2 * page;
constexpr uintptr_t max_distance = uintptr_t(1) << 30;
// Prefer to leave this free on both sides: a heap or a stack may grow there.
constexpr uintptr_t margin       = 1 << 20;
constexpr uintptr_t end_of_space = uintptr_t(1) << 47;

uintptr_t distance(uintptr_t a, uintptr_t b)
{
    return (a > b) ? a - b : b - a;
}

// Finds the nearest free place of a size with a margin on both sides.
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
    // Empty if there is no place, or it is too far away.
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

// Returns the nearest unmapped place, or an empty span. It searches all
// mappings, as guesses fail: CUDA and similar libraries reserve gigabytes. The
// kernel maps small libraries between such reservations, some of which it
// aligns to 2 MiB.
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
    constexpr int attempts = 3; // another thread may map there first

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
