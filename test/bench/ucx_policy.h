// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "costs.h"
#include <map>
#include <uct/ib_dmabuf/gpu/exporter.h>
#include <uct/ib_dmabuf/rcache/registrar.h>

// The registrations of UCX 1.22 for the same trace and one NIC, by its rules.
// It registers the whole allocation if that is at most a tenth of the device's
// memory, else the exact range, rounded to pages. It looks regions up by range,
// merges overlapping ones, and drops a region when memory in it is freed. The
// first use of an allocation costs a detection, an address-range query and a
// probing export; each registration costs an export. A budget evicts the least
// recently used regions, as a ucs_rcache with max_size does.
class ucx_policy {
public:
    ucx_policy(size_t device_memory, size_t budget, const costs &price,
               account &spent)
        : device_(device_memory), budget_(budget), price_(price), spent_(spent)
    {
    }

    void use(const ucx_ib_dmabuf::allocation &memory, uintptr_t address,
             size_t length);
    void release(uintptr_t base, size_t size);

private:
    struct region {
        uintptr_t end;
        uint64_t used;
    };
    using regions = std::map<uintptr_t, region>;

    regions::iterator remove(regions::iterator at);
    void evict();

    const size_t device_, budget_;
    const costs &price_;
    account &spent_;
    regions regions_; // by start
    std::map<uintptr_t, uintptr_t> probed_;
    size_t bytes_  = 0;
    uint64_t uses_ = 0;
};
