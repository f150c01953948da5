// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_BUDGET_H_
#define UCX_IB_DMABUF_CACHE_BUDGET_H_

#include "reclaim/steps.h"
#include <array>
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

constexpr unsigned max_nics = steps::size(256u, 2u);

// Something that is or will be registered: regions of one GPU.
struct amount {
    size_t bytes   = 0; // mapped
    size_t regions = 0;

    bool nothing() const { return bytes == 0 && regions == 0; }
};

// What is registered, against its limits. Under the cache's lock.
class budget {
public:
    // More than any machine has; what is beyond shares the last place.
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

    // How much would have to go before that fits.
    amount lacking(int device, amount wanted) const;
    // Could it ever fit, with nothing else registered?
    bool possible(int device, amount wanted) const;
    // What is exported once takes room once, whichever NICs have it.
    void map(int device, size_t bytes);
    void unmap(int device, size_t bytes);
    // One registration.
    void add(unsigned nic, size_t bytes);
    void remove(unsigned nic, size_t bytes);
    // Nothing is registered any more.
    void reset();

    size_t regions() const { return regions_; }
    uint64_t bytes() const { return bytes_; }
    uint64_t mapped_bytes() const { return mapped_; }
    size_t mapped(int device) const { return gpus_[place(device)].bytes; }
    size_t registered(unsigned nic) const { return nics_[nic]; }

private:
    struct gpu {
        size_t max_bytes = SIZE_MAX;
        size_t bytes     = 0;
        bool known       = false;
    };

    std::array<gpu, max_devices> gpus_;
    std::array<size_t, max_nics> nics_{};
    size_t max_regions_;
    size_t regions_  = 0;
    uint64_t bytes_  = 0; // registered, with each NIC
    uint64_t mapped_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
