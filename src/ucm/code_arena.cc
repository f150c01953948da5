// SPDX-License-Identifier: BSD-3-Clause
#include "code_arena.h"
#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <sys/mman.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 // a kernel before 4.17 takes it for a hint
#endif

namespace ucx_ib_dmabuf::ucm {
namespace {

// A page, 42 hooks: a small library may leave no more free around it.
constexpr uintptr_t arena_size   = 0x1000;
constexpr uintptr_t max_distance = uintptr_t(1) << 30;
// Better left free on both sides: a heap or a stack there may grow.
constexpr uintptr_t margin       = 1 << 20;
constexpr uintptr_t end_of_space = uintptr_t(1) << 47;

uintptr_t distance(uintptr_t a, uintptr_t b)
{
    return (a > b) ? a - b : b - a;
}

// The nearest place with so much free on both sides, or 0.
class place {
public:
    place(uintptr_t near, uintptr_t beside) : near_(near), margin_(beside) {}

    void look_between(uintptr_t end, uintptr_t begin)
    {
        const uintptr_t low = end + margin_;
        if ((begin >= end_of_space) || (low + arena_size + margin_ > begin)) {
            return;
        }
        const uintptr_t found =
            std::clamp(near_, low, begin - margin_ - arena_size) &
            ~(arena_size - 1);
        if ((best_ == 0) || (distance(found, near_) < distance(best_, near_))) {
            best_ = found;
        }
    }
    uintptr_t found() const
    {
        return (distance(best_, near_) < max_distance) ? best_ : 0;
    }

private:
    const uintptr_t near_, margin_;
    uintptr_t best_ = 0;
};

// The nearest place that nothing is mapped at, or 0. CUDA and its like reserve
// gigabytes around libraries, so guesses do not find it, and the kernel puts
// small libraries where little more is free: between such reservations, of
// which it aligns some to 2 MiB.
uintptr_t nearest_gap(uintptr_t near)
{
    const std::unique_ptr<FILE, int (*)(FILE *)> maps(
        fopen("/proc/self/maps", "re"), fclose);
    place roomy(near, margin), tight(near, 0);
    uintptr_t begin = 0, end = 0, last = margin; // nothing is mapped at 0

    while (maps && (fscanf(maps.get(), "%" SCNxPTR "-%" SCNxPTR "%*[^\n]",
                           &begin, &end) == 2)) {
        roomy.look_between(last, begin);
        tight.look_between(last, begin);
        last = end;
    }
    return (roomy.found() != 0) ? roomy.found() : tight.found();
}

uint8_t *map(const void *near)
{
    constexpr int attempts = 3; // another thread may have been quicker

    for (int i = 0; i < attempts; ++i) {
        const uintptr_t gap = nearest_gap(uintptr_t(near));
        if (gap == 0) {
            return nullptr;
        }
        void *const wanted = reinterpret_cast<void *>(gap);
        void *const memory =
            mmap(wanted, arena_size, PROT_READ | PROT_WRITE | PROT_EXEC,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (memory == wanted) {
            return static_cast<uint8_t *>(memory);
        }
        if (memory != MAP_FAILED) {
            munmap(memory, arena_size);
        }
    }
    return nullptr; // or executable memory is forbidden
}

} // namespace

uint8_t *code_arena::reserve(const void *near, size_t size)
{
    if ((start_ == nullptr) || (used_ + size > arena_size) ||
        (distance(uintptr_t(start_), uintptr_t(near)) >= max_distance)) {
        start_ = map(near);
        used_  = 0;
    }
    return (start_ == nullptr) ? nullptr : start_ + used_;
}

} // namespace ucx_ib_dmabuf::ucm
