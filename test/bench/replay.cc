// SPDX-License-Identifier: BSD-3-Clause
#include "trace.h"
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <set>
#include <uct/ib_dmabuf/cache/cache.h>
#include <uct/ib_dmabuf/cache/memory_run.h>

// Replays a trace through the cache with two NICs on a simulated GPU, and
// through UCX 1.22's policy; prints what each registered and what it asked the
// driver. Fails if the cache registered more than once for an allocation or
// chunk, or border between two that a use crosses, and NIC; or did not find
// what it should.
namespace {

using ucx_ib_dmabuf::cache;
using ucx_ib_dmabuf::cache_counters;
using ucx_ib_dmabuf::extent;
using ucx_ib_dmabuf::region;

constexpr unsigned nic_count = 2;

class replay {
public:
    replay() : cache_(gpu_, settings_)
    {
        for (auto &nic : nics_) {
            ids_[&nic - nics_] = cache_.attach(nic);
        }
    }
    ~replay()
    {
        for (auto id : ids_) {
            cache_.detach(id);
        }
    }
    replay(const replay &)            = delete;
    replay &operator=(const replay &) = delete;

    bool step(const trace_step &one)
    {
        switch (one.what) {
        case trace_step::action::device:
            peer_ = std::make_unique<ucx_policy>(one.address);
            return true;
        case trace_step::action::alloc:
        case trace_step::action::map:
            gpu_.alloc(one.address, one.size,
                       one.what == trace_step::action::map);
            // As the memory domain does: nothing old is there any more.
            cache_.invalidate(one.address, one.size);
            return true;
        case trace_step::action::free:
            release(one.address);
            return true;
        case trace_step::action::use:
            return use(one.address, one.size);
        }
        return false;
    }

    bool print(const std::string &name, bool heading)
    {
        cache_counters now;
        cache_.read_counters(&now);
        double bytes = 0;
        for (auto &nic : nics_) {
            bytes += static_cast<double>(nic.bytes);
        }
        if (heading) {
            printf("%-11s %7s %7s | %7s %7s %7s %7s %7s | %8s %7s\n", "", "",
                   "", "regis-", "", "", "driver", "GiB in", "UCX 1.22",
                   "driver");
            printf("%-11s %7s %7s | %7s %7s %7s %7s %7s | %8s %7s\n", "trace",
                   "uses", "limit", "tered", "exports", "hits", "calls", "all",
                   "", "calls");
        }
        printf("%-11s %7zu %7zu | %7zu %7zu %7zu %7zu %7.1f | %8zu %7zu\n",
               name.c_str(), uses_, allowed_, size_t(now.registrations),
               size_t(now.exports), size_t(now.hits), size_t(gpu_.driver_calls),
               bytes / (size_t{1} << 30),
               size_t(peer_->registrations * nic_count),
               size_t(peer_->driver_calls * nic_count));
        return now.registrations <= allowed_ &&
               now.hits + now.misses == uses_ * nic_count;
    }

private:
    void release(uintptr_t base)
    {
        size_t size = gpu_.size_at(base);
        cache_.invalidate(base, size);
        peer_->release(base, size);
        // With everything that was registered together with it.
        std::erase_if(seen_,
                      [&](uintptr_t at) { return merged(at, base, size); });
        gpu_.free(base);
    }

    // Whether what is at the address may be in one region with the range: only
    // VMM segments can.
    bool merged(uintptr_t at, uintptr_t base, size_t size)
    {
        ucx_ib_dmabuf::memory_run whole;
        uint64_t before = gpu_.driver_calls;
        uintptr_t lo = std::min(at, base), hi = std::max(at + 1, base + size);
        bool one          = whole.describe(gpu_, {lo, hi}) == UCS_OK;
        gpu_.driver_calls = before;
        return one || (at >= base && at < base + size);
    }

    bool use(uintptr_t address, size_t size)
    {
        ucx_ib_dmabuf::memory_run run;
        uint64_t before = gpu_.driver_calls;
        if (!peer_ || run.describe(gpu_, {address, address + size}) != UCS_OK) {
            fprintf(stderr, "nothing to use at %zu\n", size_t(address));
            return false;
        }
        gpu_.driver_calls = before;
        ++uses_;
        const extent memory{.base = run.range.lo, .size = run.range.size()};
        allow(memory, address, size);
        peer_->use(memory, address, size);
        for (auto id : ids_) {
            const region *got = nullptr;
            if (cache_.get(id, address, size, &got) != UCS_OK ||
                got->address > address ||
                got->address + got->length < address + size) {
                fprintf(stderr, "no region at %zu\n", size_t(address));
                return false;
            }
            cache_.put(got);
        }
        return true;
    }

    // One registration for each allocation, segment or chunk that is used for
    // the first time, and for each border between two that is crossed for the
    // first time, with each NIC.
    void allow(const extent &memory, uintptr_t address, size_t size)
    {
        size_t chunk = settings_.chunk_size;
        bool large   = memory.size > chunk;
        extent part;
        uint64_t before = gpu_.driver_calls;
        for (uintptr_t at = address; at < address + size;
             at           = part.base + part.size) {
            gpu_.describe(at, &part);
            if (large) {
                part.base = at & ~(chunk - 1);
                part.size = chunk;
            }
            allowed_ += seen_.insert(part.base).second ? nic_count : 0;
            if (part.base + part.size < address + size) {
                allowed_ += seen_.insert(part.base + part.size - 1).second
                                ? nic_count
                                : 0;
            }
        }
        gpu_.driver_calls = before;
    }

    trace_gpu gpu_;
    trace_nic nics_[nic_count];
    cache::nic_id ids_[nic_count];
    const ucx_ib_dmabuf::cache_settings settings_;
    cache cache_;
    std::unique_ptr<ucx_policy> peer_;
    std::set<uintptr_t> seen_; // allocations and chunks used, and their ends
    size_t uses_ = 0, allowed_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
    bool right = true;
    for (int i = 1; i < argc; ++i) {
        std::ifstream file(argv[i]);
        std::vector<trace_step> steps;
        std::string error = "no such file";
        if (!file || !read_trace(file, &steps, &error)) {
            fprintf(stderr, "%s: %s\n", argv[i], error.c_str());
            return 2;
        }
        replay one;
        for (const trace_step &step : steps) {
            if (!one.step(step)) {
                fprintf(stderr, "%s: this step is impossible\n", argv[i]);
                return 2;
            }
        }
        std::string name = argv[i];
        name             = name.substr(name.rfind('/') + 1);
        right &= one.print(name.substr(0, name.find('.')), i == 1);
    }
    return right ? 0 : 1;
}
