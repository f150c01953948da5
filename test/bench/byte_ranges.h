// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

// A set of addresses, as disjoint ranges.
class byte_ranges {
public:
    void add(uintptr_t lo, uintptr_t hi)
    {
        auto at = ranges_.upper_bound(lo);
        if (at != ranges_.begin() && std::prev(at)->second >= lo) {
            --at;
        }
        while (at != ranges_.end() && at->first <= hi) {
            lo = std::min(lo, at->first);
            hi = std::max(hi, at->second);
            at = ranges_.erase(at);
        }
        ranges_[lo] = hi;
    }
    double size() const
    {
        double bytes = 0;
        for (const auto &[start, end] : ranges_) {
            bytes += static_cast<double>(end - start);
        }
        return bytes;
    }

private:
    std::map<uintptr_t, uintptr_t> ranges_; // start to end
};
