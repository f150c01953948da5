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
constexpr uintptr_t wide         = 1 << 20;
constexpr uintptr_t lowest       = 1 << 20; // nothing is mapped at 0
constexpr uintptr_t end_of_space = uintptr_t(1) << 47;

uintptr_t distance(uintptr_t a, uintptr_t b)
{
    return (a > b) ? a - b : b - a;
}

// Returns the nearest unmapped place of a size, with a margin on both sides;
// empty if it is too far away. It searches all mappings, as guesses fail: CUDA
// and similar libraries reserve gigabytes. The kernel maps small libraries
// between such reservations, some of which it aligns to 2 MiB.
std::span<uint8_t> nearest_gap(uintptr_t near, uintptr_t size, uintptr_t margin)
{
    uintptr_t last = lowest, best = 0;

    each_mapping([&](uintptr_t begin, uintptr_t end, const char *) {
        const uintptr_t low = last + margin;
        if ((begin < end_of_space) && (low + size + margin <= begin)) {
            const uintptr_t found =
                std::clamp(near, low, begin - margin - size) & ~(page - 1);
            if ((best == 0) || (distance(found, near) < distance(best, near))) {
                best = found;
            }
        }
        last = end;
    });
    return (distance(best, near) < max_distance)
               ? std::span(reinterpret_cast<uint8_t *>(best), size)
               : std::span<uint8_t>();
}

std::span<uint8_t> map(const void *near)
{
    constexpr int attempts = 3; // another thread may map there first

    for (int i = 0; i < attempts; ++i) {
        std::span<uint8_t> gap = nearest_gap(uintptr_t(near), roomy_size, wide);
        if (gap.empty()) {
            gap = nearest_gap(uintptr_t(near), page, 0);
        }
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

uint8_t *code_arena::allocate(const void *near, size_t size)
{
    constexpr size_t alignment = 16;

    if (memory_.empty() || (used_ + size > memory_.size()) ||
        (distance(uintptr_t(memory_.data()), uintptr_t(near)) >=
         max_distance)) {
        memory_ = map(near);
        used_   = 0;
    }
    if (memory_.empty()) {
        return nullptr;
    }
    uint8_t *const result = memory_.data() + used_;
    used_ += (size + alignment - 1) / alignment * alignment;
    return result;
}

} // namespace ucx_ib_dmabuf::ucm
