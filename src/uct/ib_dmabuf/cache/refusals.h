// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_REFUSALS_H_
#define UCX_IB_DMABUF_CACHE_REFUSALS_H_

#include "../host/types.h"
#include <array>
#include <cstddef>
#include <cstdint>

namespace ucx_ib_dmabuf {

// The last time that a GPU or a NIC had no room: it does not say which of the
// two, so this is for the pair.
struct refusal {
    unsigned nic        = 0;
    int device          = 0;
    uint64_t changes    = 0; // how many there had been
    unsigned asked      = 0; // how often since
    ucs_status_t status = UCS_OK;
    // What was mapped of the GPU and registered with the NIC, with what was
    // refused.
    size_t mapped     = 0;
    size_t registered = 0;
    // What is as large was refused also after eviction of as much as its size
    // of the GPU, and of the NIC.
    size_t vain_mapped     = SIZE_MAX;
    size_t vain_registered = SIZE_MAX;
};

// The latest refusals. Under the cache's lock.
class refusals {
public:
    // nullptr if there is none.
    refusal *find(unsigned nic, int device)
    {
        for (unsigned i = 0; i < count_; ++i) {
            if (all_[i].nic == nic && all_[i].device == device) {
                return &all_[i];
            }
        }
        return nullptr;
    }
    refusal *add(unsigned nic, int device)
    {
        refusal *one = &all_[next_];
        *one         = {};
        one->nic     = nic;
        one->device  = device;
        next_        = (next_ + 1) % all_.size();
        count_       = count_ < all_.size() ? count_ + 1 : count_;
        return one;
    }
    void clear() { count_ = next_ = 0; }

private:
    std::array<refusal, 64> all_;
    unsigned count_ = 0;
    unsigned next_  = 0;
};

} // namespace ucx_ib_dmabuf

#endif
