// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <uct/ib_dmabuf/stats/counters.h>

namespace ucx_ib_dmabuf {

constexpr unsigned max_nics = 256;

// The room that a request lacks: mapped bytes of a GPU, registered bytes of a
// NIC, and regions of any kind.
struct shortage {
    int device        = 0; // slot in the budget
    unsigned nic      = max_nics;
    size_t mapped     = 0; // bytes, as the next
    size_t registered = 0;
    size_t regions    = 0;

    bool nothing() const
    {
        return mapped == 0 && registered == 0 && regions == 0;
    }
};

// Counts registered memory against its limits. Under the cache's lock.
class budget {
public:
    // More than any machine has; further ones share the last slot.
    static constexpr int max_devices = 256;

    explicit budget(size_t limit) : max_regions_(limit) {}

    static int place(int device)
    {
        return device < 0 || device >= max_devices ? max_devices - 1 : device;
    }
    bool knows(int device) const { return gpus_[place(device)].known; }
    void set_max_bytes(int device, size_t bytes)
    {
        gpus_[place(device)].known     = true;
        gpus_[place(device)].max_bytes = bytes;
    }

    // The room that the GPU lacks for a request.
    shortage lacking(int device, size_t bytes, size_t regions) const
    {
        const gpu &here = gpus_[place(device)];
        return {.device  = place(device),
                .mapped  = excess(here.bytes, bytes, here.max_bytes),
                .regions = excess(regions_, regions, max_regions_)};
    }
    // An export counts once, however many NICs use it.
    void map(int device, size_t bytes)
    {
        gpus_[place(device)].bytes += bytes;
        process_counters.add("mapped_bytes", bytes);
    }
    void unmap(int device, size_t bytes)
    {
        gpus_[place(device)].bytes -= bytes;
        process_counters.subtract("mapped_bytes", bytes);
    }
    // For one registration.
    void add(unsigned nic, size_t bytes)
    {
        nics_[nic] += bytes;
        ++regions_;
        process_counters.add("regions");
        process_counters.add("registered_bytes", bytes);
    }
    void remove(unsigned nic, size_t bytes)
    {
        nics_[nic] -= bytes;
        --regions_;
        process_counters.subtract("regions", 1);
        process_counters.subtract("registered_bytes", bytes);
    }

    size_t mapped(int device) const { return gpus_[place(device)].bytes; }
    size_t registered(unsigned nic) const { return nics_[nic]; }

private:
    struct gpu {
        size_t max_bytes = SIZE_MAX;
        size_t bytes     = 0;
        bool known       = false;
    };

    // Bytes of `used` to free before `wanted` fits; SIZE_MAX if it never does.
    static size_t excess(size_t used, size_t wanted, size_t max)
    {
        if (wanted > max) {
            return SIZE_MAX;
        }
        return used > max - wanted ? used - (max - wanted) : 0;
    }

    std::array<gpu, max_devices> gpus_;
    std::array<size_t, max_nics> nics_{};
    size_t max_regions_;
    size_t regions_ = 0;
};

} // namespace ucx_ib_dmabuf
