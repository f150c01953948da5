// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_FAILURES_H_
#define UCX_IB_DMABUF_CACHE_FAILURES_H_

#include "../host/types.h"
#include "span.h"
#include <array>

namespace ucx_ib_dmabuf {

// Memory that could not be exported, or not be registered with a NIC, and the
// error: until the memory is released or the NIC detached, or until it was
// asked for so often that it is worth another attempt. Of many the latest.
// Under the cache's lock.
class failures {
    struct failure {
        span memory;
        uint64_t identity;
        unsigned nic;
        ucs_status_t status;
        unsigned asked = 0;
    };

public:
    static constexpr unsigned any_nic = ~0u;

    // Others than UCS_ERR_UNSUPPORTED may pass, and nobody tells: a lack of
    // file descriptors, or of room that another process had.
    static constexpr unsigned asked_again_after = 128;

    // Of this memory with that NIC or with all, else nullptr.
    failure *find(uint64_t identity, unsigned nic)
    {
        auto *end   = all_.data() + count_;
        auto *found = std::find_if(all_.data(), end, [=](auto &each) {
            return each.identity == identity &&
                   (each.nic == nic || each.nic == any_nic);
        });
        return found == end ? nullptr : found;
    }
    // The error for somebody who asks for it, UCS_OK if it is to be tried.
    ucs_status_t ask(uint64_t identity, unsigned nic)
    {
        failure *known = find(identity, nic);
        if (known == nullptr) {
            return UCS_OK;
        }
        if (known->status != UCS_ERR_UNSUPPORTED &&
            ++known->asked == asked_again_after) {
            forget_if([known](auto &each) { return &each == known; });
            return UCS_OK;
        }
        return known->status;
    }
    void add(span memory, uint64_t identity, unsigned nic, ucs_status_t status)
    {
        all_[next_] = {memory, identity, nic, status};
        next_       = (next_ + 1) % max_known;
        count_      = std::max(count_, next_ == 0 ? max_known : next_);
    }
    void forget(span released)
    {
        forget_if([&](auto &each) { return each.memory.overlaps(released); });
    }
    // It was registered, after all.
    void forget(uint64_t identity, unsigned nic)
    {
        forget_if([=](auto &each) {
            return each.identity == identity &&
                   (each.nic == nic || each.nic == any_nic);
        });
    }
    void forget(unsigned nic)
    {
        forget_if([&](auto &each) { return each.nic == nic; });
    }
    void clear() { count_ = next_ = 0; }

private:
    static constexpr unsigned max_known = 256;

    template <typename Condition>
    void forget_if(Condition over)
    {
        auto end  = std::remove_if(all_.begin(), all_.begin() + count_, over);
        auto left = static_cast<unsigned>(end - all_.begin());
        if (left != count_) {
            count_ = next_ = left;
        }
    }

    std::array<failure, max_known> all_;
    unsigned count_ = 0;
    unsigned next_  = 0; // where the next one goes: the oldest, if it is full
};

} // namespace ucx_ib_dmabuf

#endif
