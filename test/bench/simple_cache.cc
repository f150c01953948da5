// SPDX-License-Identifier: BSD-3-Clause
//
// The simplest registration cache that is plainly right, linked in the place of
// src/uct/ib_dmabuf/cache, to see what that one's design is worth: a lock, a
// map by address, a count in each region. With -DSIMPLE_CACHE_SHARED the lock
// lets hits in together. It knows no limits, no chunks and no forks, and
// remembers no failures.
#include "../../src/uct/ib_dmabuf/cache/cache.h"
#include "../../src/uct/ib_dmabuf/cache/exports.h"
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

#ifdef SIMPLE_CACHE_SHARED
using mutex       = std::shared_mutex;
using reader_lock = std::shared_lock<mutex>;
#else
using mutex       = std::mutex;
using reader_lock = std::lock_guard<mutex>;
#endif

// Ends when the index and all users have let go of it.
struct counted : region {
    registrar *nic;
    std::atomic<unsigned> references;

    void release()
    {
        if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            nic->dereg(handle);
            delete this;
        }
    }
};

struct device {
    registrar *nic;
    std::map<uintptr_t, counted *> regions; // by their first byte
};

} // namespace

struct cache::state {
    exporter &memory;
    mutex lock;
    std::deque<device> nics;
    uint64_t events = 0;

    // With the lock.
    counted *find(nic_id nic, uintptr_t address, size_t length)
    {
        auto &regions = nics[nic].regions;
        auto after    = regions.upper_bound(address);
        if (after == regions.begin()) {
            return nullptr;
        }
        counted *before = std::prev(after)->second;
        if (address - before->address > before->length ||
            length > before->length - (address - before->address)) {
            return nullptr;
        }
        before->references.fetch_add(1, std::memory_order_relaxed);
        return before;
    }

    ucs_status_t make(registrar &nic, const extent &found, counted **out)
    {
        exports all(memory, found.base, found.size);
        void *handle = nullptr;
        ucs_status_t status =
            nic.reg(all, found.device, found.base, found.size, &handle);
        if (status == UCS_OK) {
            *out = new counted{{found.base, found.size, handle}, &nic, 1};
        }
        return status;
    }

    void invalidate(uintptr_t address, size_t length)
    {
        std::vector<counted *> gone;
        {
            std::lock_guard<mutex> guard(lock);
            ++events;
            for (device &one : nics) {
                auto at = one.regions.upper_bound(address);
                if (at != one.regions.begin()) {
                    --at;
                }
                while (at != one.regions.end() &&
                       (at->first < address || at->first - address < length)) {
                    if (at->first + at->second->length > address) {
                        gone.push_back(at->second);
                        at = one.regions.erase(at);
                    } else {
                        ++at;
                    }
                }
            }
        }
        for (counted *one : gone) {
            one->release();
        }
    }
};

cache::cache(exporter &memory, const cache_settings &)
    : state_(new state{memory, {}, {}})
{
}

cache::~cache() = default;

cache::nic_id cache::attach(registrar &nic)
{
    std::lock_guard<mutex> guard(state_->lock);
    state_->nics.push_back({&nic, {}});
    return static_cast<nic_id>(state_->nics.size() - 1);
}

void cache::detach(nic_id nic)
{
    std::map<uintptr_t, counted *> gone;
    {
        std::lock_guard<mutex> guard(state_->lock);
        gone.swap(state_->nics[nic].regions);
    }
    for (auto &one : gone) {
        one.second->release();
    }
}

const region *cache::find(nic_id nic, uintptr_t address, size_t length) noexcept
{
    reader_lock guard(state_->lock);
    return state_->find(nic, address, length);
}

ucs_status_t cache::get(nic_id nic, uintptr_t address, size_t length,
                        const region **out, effort)
{
    for (;;) {
        uint64_t before;
        registrar *verbs;
        extent found;
        counted *made = nullptr;
        {
            std::lock_guard<mutex> guard(state_->lock);
            if ((*out = state_->find(nic, address, length)) != nullptr) {
                return UCS_OK;
            }
            before = state_->events;
            verbs  = state_->nics[nic].nic;
        }
        ucs_status_t status = state_->memory.describe(address, &found);
        if (status == UCS_OK) {
            status = state_->make(*verbs, found, &made);
        }
        if (status != UCS_OK) {
            return status;
        }
        {
            // Not if it may be gone, or another thread was faster.
            std::lock_guard<mutex> guard(state_->lock);
            if (state_->events == before &&
                state_->nics[nic]
                    .regions.try_emplace(found.base, made)
                    .second) {
                made->references = 2;
                *out             = made;
                return UCS_OK;
            }
        }
        made->release();
    }
}

void cache::put(const region *used) noexcept
{
    if (used != nullptr) {
        static_cast<counted *>(const_cast<region *>(used))->release();
    }
}

void cache::invalidate(uintptr_t address, size_t length)
{
    state_->invalidate(address, length);
}

void cache::release(uintptr_t address, size_t length)
{
    state_->invalidate(address, length);
}

void cache::drop(nic_id) // of NICs that fail, which is not measured
{
}

bool cache::is_revoked(const region *) const
{
    return false;
}

bool cache::flush()
{
    return false;
}

void cache::check_identity() {}

bool cache::needs_each_use() const
{
    return false;
}

void cache::read_counters(cache_counters *out) const
{
    *out = {};
}

} // namespace ucx_ib_dmabuf
