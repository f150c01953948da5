// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_REFUSALS_H_
#define UCX_IB_DMABUF_CACHE_REFUSALS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <ucs/type/status.h>

namespace ucx_ib_dmabuf {

// The last time that a GPU or a NIC had no room: it does not say which of the
// two, so this is for the pair. As much or more is refused while there is as
// much of both, and nothing was released.
struct refusal {
    unsigned nic        = 0;
    int device          = 0; // its place in the budget
    ucs_status_t status = UCS_OK;
    uint64_t time       = 0; // of the release log
    size_t size         = 0; // bytes, as the next
    size_t mapped       = 0; // of the GPU, with it; 0: however little
    size_t registered   = 0; // with the NIC, the same
    unsigned asked      = 0; // how often since
};

// The latest refusals, one for a pair. Under the cache's lock.
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
    refusal &add(unsigned nic, int device)
    {
        refusal *one = find(nic, device);
        if (one == nullptr) {
            one    = &all_[next_];
            next_  = (next_ + 1) % all_.size();
            count_ = std::min<unsigned>(count_ + 1, all_.size());
        }
        *one = {.nic = nic, .device = device};
        return *one;
    }
    void clear() { count_ = next_ = 0; }

private:
    std::array<refusal, 64> all_;
    unsigned count_ = 0;
    unsigned next_  = 0;
};

} // namespace ucx_ib_dmabuf

#endif
