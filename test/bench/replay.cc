// SPDX-License-Identifier: BSD-3-Clause
//
// Replays traces through the cache on fake GPUs and NICs, and through UCX
// 1.22's policy. Prints for test/bench/report.awk the registrations and driver
// calls of each, and their estimated time. The targets (test/bench/targets):
//   registrations  at most one for each allocation, segment or chunk and NIC
//                  that uses it, and for each border between two that a use
//                  crosses. With a budget: 1.1 times UCX 1.22's, which evicts
//                  in exact order
//   driver_calls   at most UCX 1.22's
//   forgotten      0, evictions aside: registrations inside an earlier region,
//                  without a release in it
//   replaced       0: deregistrations without a release or an eviction. For
//                  mapped segments: segment_gib at most four times their size,
//                  for each NIC
//   gib            registered: at most twice the bytes used, for each NIC;
//                  for the trace "borders" only
// Exits with 2 if a trace is wrong or the cache fails.
#include "byte_ranges.h"
#include "trace.h"
#include "trace_gpus.h"
#include "ucx_policy.h"
#include <algorithm>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <set>
#include <uct/ib_dmabuf/rcache/rcache.h>

namespace {

using ucx_ib_dmabuf::allocation;
using ucx_ib_dmabuf::rcache;
using ucx_ib_dmabuf::rcache_settings;
using ucx_ib_dmabuf::region;

// The machine that a trace describes before its first allocation.
struct machine {
    size_t device_memory = 0;
    size_t nics          = 2;
    size_t budget        = SIZE_MAX; // bytes for each GPU
};

rcache_settings settings_of(const machine &with)
{
    rcache_settings result;
    result.max_bytes = [budget = with.budget](int) { return budget; };
    return result;
}

// A fake NIC of the cache, and UCX's policy for the same NIC.
struct replayed_nic {
    replayed_nic(fakes::gpu &gpus, const machine &with, const costs &price,
                 account &theirs)
        : nic(gpus), peer(with.device_memory, with.budget, price, theirs)
    {
    }

    fakes::nic nic;
    ucx_policy peer;
    rcache::nic_id id = 0;
    // Starts of used allocations and chunks; last bytes before crossed borders.
    std::set<uintptr_t> seen;
    byte_ranges used;
    std::set<std::pair<uintptr_t, uintptr_t>> given; // regions: start, end
};

class replay {
public:
    replay(const machine &with, const costs &price)
        : limited_(with.budget != SIZE_MAX), settings_(settings_of(with)),
          gpus_(price, ours_), cache_(gpus_, settings_)
    {
        for (size_t i = 0; i < with.nics; ++i) {
            replayed_nic &made =
                nics_.emplace_back(gpus_, with, price, theirs_);
            made.nic.each_call = gpus_.each_call;
            made.id            = cache_.attach(made.nic);
        }
    }
    ~replay()
    {
        for (auto &one : nics_) {
            cache_.detach(one.id);
        }
    }
    replay(const replay &)            = delete;
    replay &operator=(const replay &) = delete;

    // Returns false if the step is impossible or the cache fails.
    bool step(const trace_step &one)
    {
        switch (one.what) {
        case trace_step::action::alloc:
        case trace_step::action::map:
            gpus_.alloc(one.address, one.size, std::max(one.which, 0), true,
                        one.what == trace_step::action::map);
            if (one.what == trace_step::action::map) {
                segment_bytes_ += static_cast<double>(one.size);
            }
            // As the memory domain does: new memory replaces the old memory.
            invalidate(one.address, one.size);
            return true;
        case trace_step::action::free:
            return release(one.address);
        case trace_step::action::use:
            return use(one);
        default:
            return false; // must precede the first allocation
        }
    }

    struct result {
        account ours, theirs;
        size_t uses, limit, replaced, forgotten;
        double segment_bytes, used_bytes; // summed over all NICs
    };

    result get() const
    {
        result all{ours_,
                   theirs_,
                   uses_,
                   limit_,
                   replaced_,
                   forgotten_ - std::min<size_t>(forgotten_, evictions()),
                   segment_bytes_ * static_cast<double>(nics_.size()),
                   0};
        if (limited_) {
            all.limit = theirs_.registrations * 11 / 10;
        }
        for (const auto &one : nics_) {
            all.used_bytes += one.used.size();
        }
        return all;
    }

private:
    static uint64_t evictions()
    {
        return ucx_ib_dmabuf::process_counters.get("evictions");
    }

    // Also waits for the cache's own thread, so that the replay is sequential.
    void invalidate(uintptr_t address, size_t size)
    {
        cache_.invalidate(address, size);
        cache_.flush();
    }

    bool release(uintptr_t base)
    {
        const allocation gone = gpus_.at(base);
        if (gone.size == 0 || gone.base != base) {
            return false;
        }
        invalidate(base, gone.size);
        for (auto &one : nics_) {
            one.peer.release(base, gone.size);
            std::erase_if(one.given, [&](auto &each) {
                return each.first < end_of(gone) && base < each.second;
            });
            // Also erases what may have been registered together with it.
            std::erase_if(one.seen, [&](uintptr_t at) {
                const uintptr_t lo = std::min(at, base);
                return gpus_.is_one(lo, std::max(at + 1, end_of(gone)) - lo);
            });
        }
        gpus_.free(base);
        return true;
    }

    bool use(const trace_step &one)
    {
        if (!gpus_.is_one(one.address, one.size) ||
            one.which >= static_cast<int>(nics_.size())) {
            return false;
        }
        for (size_t i = 0; i < nics_.size(); ++i) {
            if ((one.which < 0 || static_cast<size_t>(one.which) == i) &&
                !use(nics_[i], one.address, one.size)) {
                return false;
            }
        }
        return true;
    }

    bool use(replayed_nic &with, uintptr_t address, size_t size)
    {
        ++uses_;
        allow(with, address, size);
        with.used.add(address, address + size);
        with.peer.use(gpus_.around(address, size), address, size);

        const bool given =
            std::any_of(with.given.begin(), with.given.end(), [&](auto &each) {
                return each.first <= address && address + size <= each.second;
            });
        const uint64_t made    = ours_.registrations;
        const uint64_t gone    = ours_.deregistrations;
        const uint64_t evicted = evictions();
        const region *got      = nullptr;
        if (cache_.get(with.id, address, size, &got) != UCS_OK ||
            got->address > address ||
            got->address + got->length < address + size) {
            fprintf(stderr, "no region at %zu\n", address);
            return false;
        }
        cache_.put(got);
        const uintptr_t end = got->address + got->length;
        std::erase_if(with.given, [&](auto &each) { // replaced
            return got->address <= each.first && each.second <= end;
        });
        with.given.insert({got->address, end});
        forgotten_ += given && ours_.registrations != made;
        replaced_ += ours_.deregistrations - gone - (evictions() - evicted);
        return true;
    }

    // Raises the limit by one for each first use of an allocation, segment or
    // chunk, and for each first crossing of a border between two.
    void allow(replayed_nic &with, uintptr_t address, size_t size)
    {
        const size_t chunk = settings_.chunk_size;
        for (uintptr_t at = address, next; at < address + size; at = next) {
            const allocation block = gpus_.at(at);
            uintptr_t base         = block.base;
            next                   = end_of(block);
            if (!block.joins && block.size > chunk) {
                base = at & ~(chunk - 1);
                next = base + chunk;
            }
            limit_ += with.seen.insert(base).second;
            if (next < address + size) {
                limit_ += with.seen.insert(next - 1).second;
            }
        }
    }

    const bool limited_;
    const rcache_settings settings_;
    account ours_, theirs_;
    trace_gpus gpus_;
    std::deque<replayed_nic> nics_;
    rcache cache_;
    size_t uses_ = 0, limit_ = 0, replaced_ = 0, forgotten_ = 0;
    double segment_bytes_ = 0;
};

constexpr double gib = size_t{1} << 30;

// Prints a name, a figure, and the figure to compare it with.
void print(const std::string &name, const replay::result &of)
{
    printf("trace/%s/registrations %zu %zu\n", name.c_str(),
           size_t(of.ours.registrations), of.limit);
    printf("trace/%s/driver_calls %zu %zu\n", name.c_str(),
           size_t(of.ours.driver_calls()), size_t(of.theirs.driver_calls()));
    printf("trace/%s/gib %.3f %.3f\n", name.c_str(), of.ours.bytes / gib,
           of.used_bytes / gib);
    printf("trace/%s/replaced %zu\n", name.c_str(), of.replaced);
    printf("trace/%s/forgotten %zu\n", name.c_str(), of.forgotten);
    if (of.segment_bytes != 0) {
        printf("trace/%s/segment_gib %.3f %.3f\n", name.c_str(),
               of.ours.bytes / gib, of.segment_bytes / gib);
    }
    printf("trace/%s/ms %.3f %.3f\n", name.c_str(), of.ours.ns / 1e6,
           of.theirs.ns / 1e6);
    // For the table in docs/rcache.md.
    printf("trace/%s/ucx_registrations %zu\n", name.c_str(),
           size_t(of.theirs.registrations));
    printf("trace/%s/ucx_gib %.1f\n", name.c_str(), of.theirs.bytes / gib);
}

// Reads the steps before the first allocation. *first is its index.
machine machine_of(const std::vector<trace_step> &steps, size_t *first)
{
    machine result;
    for (*first = 0; *first < steps.size(); ++*first) {
        const trace_step &step = steps[*first];
        if (step.what == trace_step::action::device) {
            result.device_memory = step.address;
        } else if (step.what == trace_step::action::nics) {
            result.nics = step.address;
        } else if (step.what == trace_step::action::budget) {
            result.budget = step.address;
        } else {
            break;
        }
    }
    return result;
}

// Returns false, after printing the reason, if the trace or the cache is wrong.
bool replay_file(const char *path)
{
    std::ifstream file(path);
    std::vector<trace_step> steps;
    std::string error = "no such file";
    if (!file || !read_trace(file, &steps, &error)) {
        fprintf(stderr, "%s: %s\n", path, error.c_str());
        return false;
    }
    size_t at          = 0;
    const machine with = machine_of(steps, &at);
    const costs price;
    replay one(with, price);
    for (; at < steps.size(); ++at) {
        if (with.device_memory == 0 || !one.step(steps[at]) ||
            fakes::complaints != 0) {
            fprintf(stderr, "%s: step %zu is impossible\n", path, at + 1);
            return false;
        }
    }
    std::string name = path;
    name             = name.substr(name.rfind('/') + 1);
    print(name.substr(0, name.find('.')), one.get());
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    int at = 1;
    while (at < argc && replay_file(argv[at])) {
        ++at;
    }
    return (at == argc) ? 0 : 2;
}
