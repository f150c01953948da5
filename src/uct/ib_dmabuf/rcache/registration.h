// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "budget.h"
#include "entry_index.h"
#include "registrar.h"
#include <array>
#include <bitset>
#include <optional>
#include <uct/ib_dmabuf/gpu/exporter.h>

// Types that the cache's functions share.
namespace ucx_ib_dmabuf {

// The effort for a registration that fails. `persistent` ignores earlier
// failures and retries a few times, with pauses of milliseconds and all idle
// regions evicted.
enum class effort : uint8_t { normal, persistent };

using nic_set = std::bitset<max_nics>;

struct nic_slot {
    region_index index;
    registrar *nic = nullptr; // nullptr: the slot is free
    // Requested regions by GPU, without those that were made because another
    // NIC requested them.
    std::array<uint32_t, budget::max_devices> used{};
    bool inherited = false; // from the parent of a fork
    // Regions claimed and not yet deregistered, and calls of
    // drop_from_ucp_cache().
    unsigned busy = 0;
};

// Bytes of a GPU and of a NIC in use, without those of the attempt.
struct attempt {
    uint64_t time     = 0; // of the release log
    size_t mapped     = 0;
    size_t registered = 0;
};

// The result of one export. The budget has reserved its room.
struct registered {
    bool mapped    = false; // and no region owns the mapping yet
    bool by_memory = false; // the export failed
    address_range range;
    size_t before = 0; // bytes of the export before the range
    nic_id nic[max_nics];
    void *handle[max_nics];
    unsigned count = 0;

    size_t exported() const { return before + range.size(); }
};

// A registration in progress, without the lock, for one miss. On the stack of
// its thread; other threads see it after begin().
struct pending {
    pending(nic_id with, address_range asked, effort how)
        : nic(with), request(asked), persistent(how == effort::persistent)
    {
    }

    const nic_id nic;
    const address_range request;
    const bool persistent;
    bool exact        = false; // tries only the request's pages
    bool asked_others = false;
    segment_run memory;
    registered made;
    attempt tried;                  // the latest
    std::optional<attempt> refused; // the first without room

    // Under the lock.
    address_range range;   // other threads need not register it meanwhile
    nic_set nics;          // the NICs it is for
    bool released = false; // some of the memory was released
    pending *next = nullptr;

    // No smaller range is left to try.
    bool insists() const { return exact && persistent; }
};

// The NICs with retired regions that users may cache, and their range.
struct kept_regions {
    nic_set nics;
    address_range where;
};

} // namespace ucx_ib_dmabuf
