// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// The bytes [lo, hi), without the last byte of the address space.
struct address_range {
    uintptr_t lo = 0;
    uintptr_t hi = 0;

    size_t size() const { return hi - lo; }
    bool empty() const { return hi <= lo; }
    bool covers(address_range other) const
    {
        return lo <= other.lo && other.hi <= hi;
    }
    bool overlaps(address_range other) const
    {
        return lo < other.hi && other.lo < hi;
    }
    bool operator==(const address_range &) const = default;
};

constexpr address_range everything{0, UINTPTR_MAX};

// Truncated at the end of the address space.
inline address_range make_range(uintptr_t address, size_t length)
{
    return {address, address + std::min(length, UINTPTR_MAX - address)};
}

inline address_range intersection(address_range a, address_range b)
{
    return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

inline address_range hull(address_range a, address_range b)
{
    return {std::min(a.lo, b.lo), std::max(a.hi, b.hi)};
}

// The smallest aligned span around it; the unit is a power of two.
inline address_range aligned(address_range bytes, size_t unit)
{
    uintptr_t mask = unit - 1;
    uintptr_t hi   = bytes.hi > UINTPTR_MAX - mask ? UINTPTR_MAX & ~mask
                                                   : (bytes.hi + mask) & ~mask;
    return {bytes.lo & ~mask, hi};
}

} // namespace ucx_ib_dmabuf
