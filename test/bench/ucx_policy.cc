// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_policy.h"
#include <algorithm>

void ucx_policy::use(const ucx_ib_dmabuf::allocation &memory, uintptr_t address,
                     size_t length)
{
    uintptr_t lo        = address & ~uintptr_t{4095};
    uintptr_t hi        = (address + length + 4095) & ~uintptr_t{4095};
    const uintptr_t end = memory.base + memory.size;
    if (memory.size <= device_ / 10) {
        lo = std::min(lo, memory.base);
        hi = std::max(hi, end);
    }
    if (probed_.emplace(memory.base, end).second) {
        spent_.query(price_, 2);
        spent_.make_export(price_);
    }
    auto at = regions_.upper_bound(lo);
    if (at != regions_.begin()) {
        --at;
        if (at->second.end >= hi) {
            at->second.used = ++uses_;
            return;
        }
    }
    while (at != regions_.end() && at->first < hi) {
        if (at->second.end > lo) {
            lo = std::min(lo, at->first);
            hi = std::max(hi, at->second.end);
            at = remove(at);
        } else {
            ++at;
        }
    }
    regions_[lo] = {hi, ++uses_};
    bytes_ += hi - lo;
    spent_.make_export(price_);
    spent_.reg(price_, hi - lo);
    evict();
}

void ucx_policy::release(uintptr_t base, size_t size)
{
    for (auto at = regions_.begin(); at != regions_.end();) {
        const bool gone = at->first < base + size && base < at->second.end;
        at              = gone ? remove(at) : std::next(at);
    }
    std::erase_if(probed_, [&](auto &each) {
        return each.first < base + size && base < each.second;
    });
}

ucx_policy::regions::iterator ucx_policy::remove(regions::iterator at)
{
    bytes_ -= at->second.end - at->first;
    spent_.dereg(price_);
    return regions_.erase(at);
}

void ucx_policy::evict()
{
    while (bytes_ > budget_ && regions_.size() > 1) {
        remove(std::min_element(
            regions_.begin(), regions_.end(),
            [](auto &a, auto &b) { return a.second.used < b.second.used; }));
    }
}
