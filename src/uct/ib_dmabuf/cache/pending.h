// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "budget.h"
#include "provider.h"
#include "region_index.h"
#include <array>
#include <bitset>
#include <optional>

// What the cache's functions hand each other.
namespace ucx_ib_dmabuf {

// How much is done for a registration that fails. `persistent`: what failed
// before is tried all the same, and what fails is tried again a few times,
// with milliseconds between, and with all that may have gone evicted.
enum class effort : uint8_t { normal, persistent };

using nic_set = std::bitset<max_nics>;

struct nic_slot {
    region_index index;
    registrar *nic = nullptr; // nullptr: the slot is free
    // How many of its regions of their memory were asked for, not counting
    // those that were made for it because another NIC asked.
    std::array<uint32_t, budget::max_devices> used{};
    bool inherited = false; // the parent's, before a fork
    // Regions claimed and not yet deregistered, and calls of let_go().
    unsigned busy = 0;
};

// What there was of a GPU and of a NIC, in bytes, beside what was tried.
struct attempt {
    uint64_t time     = 0; // of the release log
    size_t mapped     = 0;
    size_t registered = 0;
};

// What one export has led to. Room for it is reserved in the budget.
struct registered {
    bool mapped    = false; // and no region has taken over the mapping
    bool by_memory = false; // what failed was the export
    span range;
    size_t before = 0; // bytes of the export before the range
    nic_id nic[max_nics];
    void *handle[max_nics];
    unsigned count = 0;

    size_t exported() const { return before + range.size(); }
};

// A registration that is being made, without the lock, for one miss. On its
// maker's stack; others see it when it has begun.
struct pending {
    pending(nic_id with, span asked, effort how)
        : nic(with), request(asked), persistent(how == effort::persistent)
    {
    }

    const nic_id nic;
    const span request;
    const bool persistent;     // effort
    bool exact        = false; // what is tried are the pages of the request
    bool asked_others = false;
    memory_run memory;
    registered made;
    attempt tried;                  // the latest
    std::optional<attempt> refused; // the first, if there was no room

    // Under the lock.
    span range;            // that others need not register meanwhile
    nic_set nics;          // with which
    bool released = false; // some of the memory went meanwhile
    pending *next = nullptr;

    // Nothing else can be tried instead.
    bool insists() const { return exact && persistent; }
};

// Of which NICs users may keep what was retired, and what it lies in.
struct kept_regions {
    nic_set nics;
    span where;
};

} // namespace ucx_ib_dmabuf
