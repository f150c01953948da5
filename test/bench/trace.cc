// SPDX-License-Identifier: BSD-3-Clause
#include "trace.h"
#include <algorithm>
#include <sstream>

using ucx_ib_dmabuf::extent;

bool read_trace(std::istream &in, std::vector<trace_step> *out,
                std::string *error)
{
    using action                                       = trace_step::action;
    static const std::map<std::string, action> actions = {
        {"device", action::device},
        {"alloc", action::alloc},
        {"map", action::map},
        {"free", action::free},
        {"use", action::use}};
    std::string line;
    for (size_t number = 1; std::getline(in, line); ++number) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string name;
        if (!(words >> name)) {
            continue;
        }
        auto known = actions.find(name);
        trace_step step{action::use, 0, 0};
        bool sized = name != "device" && name != "free";
        if (known == actions.end() || !(words >> step.address) ||
            (sized && (!(words >> step.size) || step.size == 0))) {
            *error = "line " + std::to_string(number) + ": " + line;
            return false;
        }
        step.what = known->second;
        out->push_back(step);
    }
    return true;
}

void trace_gpu::alloc(uintptr_t base, size_t size, bool vmm)
{
    blocks_[base] = {size, ++last_id_, vmm};
}

ucs_status_t trace_gpu::describe(uintptr_t address, extent *out)
{
    driver_calls += 2; // the attributes, the address range
    auto it = blocks_.upper_bound(address);
    if (it == blocks_.begin() ||
        (--it, address - it->first >= it->second.size)) {
        return UCS_ERR_NO_ELEM;
    }
    *out = {it->first, it->second.size, it->second.id, 0, it->second.vmm};
    return UCS_OK;
}

bool trace_gpu::is_current(uintptr_t address, uint64_t identity)
{
    extent now;
    uint64_t before = driver_calls;
    bool same = describe(address, &now) == UCS_OK && now.identity == identity;
    driver_calls = before + 1;
    return same;
}

ucs_status_t trace_gpu::export_range(uintptr_t, size_t, int *fd)
{
    ++driver_calls;
    *fd = -1;
    return UCS_OK;
}

void ucx_policy::use(const extent &memory, uintptr_t address, size_t length)
{
    uintptr_t lo = address & ~uintptr_t{4095};
    uintptr_t hi = (address + length + 4095) & ~uintptr_t{4095};
    if (memory.size <= device_ / 10) {
        lo = memory.base;
        hi = memory.base + memory.size;
    }
    if (probed_.emplace(memory.base, memory.base + memory.size).second) {
        driver_calls += 3;
    }
    auto it = regions_.upper_bound(lo);
    if (it != regions_.begin() && std::prev(it)->second >= hi) {
        return;
    }
    // What overlaps is merged: that is how ucs_rcache does it.
    it = it == regions_.begin() ? it : std::prev(it);
    while (it != regions_.end() && it->first < hi) {
        if (it->second > lo) {
            lo = std::min(lo, it->first);
            hi = std::max(hi, it->second);
            it = regions_.erase(it);
        } else {
            ++it;
        }
    }
    regions_[lo] = hi;
    ++registrations;
    ++driver_calls;
}

void ucx_policy::release(uintptr_t base, size_t size)
{
    auto overlap = [&](auto &each) {
        return each.first < base + size && base < each.second;
    };
    std::erase_if(regions_, overlap);
    std::erase_if(probed_, overlap);
}
