// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.h"
#include <array>
#include <uct/ib_dmabuf/stats/counters.h>

namespace ucx_ib_dmabuf {

constexpr unsigned max_nics = 256;

// The room that a request lacks: mapped bytes of a GPU, registered bytes of a
// NIC, and entries of any kind.
struct shortage {
    int device        = 0; // slot in the budget
    nic_id nic        = max_nics;
    size_t mapped     = 0; // bytes, as the next
    size_t registered = 0;
    size_t entries    = 0;

    bool nothing() const
    {
        return mapped == 0 && registered == 0 && entries == 0;
    }
};

// Counts entries against the limits. Under the cache's lock.
class budget {
public:
    explicit budget(size_t max_entries) : max_entries_(max_entries) {}

    static int slot(int device) { return gpu_index(device); }
    bool knows(int device) const { return gpus_[slot(device)].known; }
    void set_max_bytes(int device, size_t bytes)
    {
        gpus_[slot(device)].known     = true;
        gpus_[slot(device)].max_bytes = bytes;
    }

    // The room that an export with that many entries lacks.
    shortage lacking(int device, size_t bytes, size_t entries) const
    {
        const gpu &here = gpus_[slot(device)];
        return {.device  = slot(device),
                .mapped  = excess(here.bytes, bytes, here.max_bytes),
                .entries = excess(entries_, entries, max_entries_)};
    }
    // An export counts once, however many NICs use it.
    void add(const entry &e)
    {
        if (e.group->entries++ == 0) {
            gpus_[e.group->device].bytes += e.group->bytes;
            process_counters.add("mapped_bytes", e.group->bytes);
        }
        nics_[e.nic] += e.length;
        ++entries_;
        process_counters.add("regions");
        process_counters.add("registered_bytes", e.length);
    }
    void remove(const entry &e)
    {
        if (--e.group->entries == 0) {
            gpus_[e.group->device].bytes -= e.group->bytes;
            process_counters.subtract("mapped_bytes", e.group->bytes);
        }
        nics_[e.nic] -= e.length;
        --entries_;
        process_counters.subtract("regions", 1);
        process_counters.subtract("registered_bytes", e.length);
    }

    size_t mapped(int device) const { return gpus_[slot(device)].bytes; }
    size_t registered(nic_id nic) const { return nics_[nic]; }

private:
    struct gpu {
        size_t max_bytes = SIZE_MAX;
        size_t bytes     = 0;
        bool known       = false;
    };

    // How much of `used` to free before `wanted` fits; SIZE_MAX if it never
    // does.
    static size_t excess(size_t used, size_t wanted, size_t max)
    {
        if (wanted > max) {
            return SIZE_MAX;
        }
        return used > max - wanted ? used - (max - wanted) : 0;
    }

    std::array<gpu, max_gpus> gpus_;
    std::array<size_t, max_nics> nics_{};
    size_t max_entries_;
    size_t entries_ = 0;
};

} // namespace ucx_ib_dmabuf
