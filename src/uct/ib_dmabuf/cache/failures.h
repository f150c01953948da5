// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../host/types.h"
#include "span.h"
#include <array>
#include <vector>

namespace ucx_ib_dmabuf {

// Memory that could not be exported, or not be registered with a NIC, and the
// error: until the memory is released or the NIC detached, or until it was
// asked for so often that it is worth another attempt. Of many the latest.
// Under the cache's lock, so all room for them is taken at the beginning.
class failures {
    struct failure {
        span memory;
        uint64_t identity;
        unsigned nic;
        ucs_status_t status;
        unsigned asked = 0;

        bool is_of(uint64_t which, unsigned with) const
        {
            return identity == which && (nic == with || nic == any_nic);
        }
    };

public:
    static constexpr unsigned any_nic = ~0u;

    // Others than UCS_ERR_UNSUPPORTED may pass, and nobody tells: a lack of
    // file descriptors, or of room that another process had.
    static constexpr unsigned asked_again_after = 128;

    failures() { all_.reserve(max_known); }

    // Of this memory with that NIC or with all, else nullptr.
    failure *find(uint64_t identity, unsigned nic)
    {
        auto found =
            std::find_if(all_.begin(), all_.end(), [=](const auto &each) {
                return each.is_of(identity, nic);
            });
        return found == all_.end() ? nullptr : &*found;
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
            forget(identity, nic);
            return UCS_OK;
        }
        return known->status;
    }
    void add(span memory, uint64_t identity, unsigned nic, ucs_status_t status)
    {
        if (all_.size() == max_known) {
            all_.erase(all_.begin());
        }
        all_.push_back({memory, identity, nic, status});
    }
    void forget(span released)
    {
        std::erase_if(all_, [=](const auto &each) {
            return each.memory.overlaps(released);
        });
    }
    // It was registered, after all.
    void forget(uint64_t identity, unsigned nic)
    {
        std::erase_if(
            all_, [=](const auto &each) { return each.is_of(identity, nic); });
    }
    void forget(unsigned nic)
    {
        std::erase_if(all_, [=](const auto &each) { return each.nic == nic; });
    }
    void clear() { all_.clear(); }

private:
    static constexpr size_t max_known = 256;

    std::vector<failure> all_; // the oldest first
};

// The last time that a GPU or a NIC had no room: it does not say which of the
// two, so this is for the pair. As much or more is refused while there is as
// much of both, and nothing was released.
struct refusal {
    unsigned nic        = 0;
    int device          = -1; // its place in the budget
    ucs_status_t status = UCS_OK;
    uint64_t time       = 0; // of the release log
    size_t size         = 0; // bytes, as the next
    size_t mapped       = 0; // of the GPU, with it; 0: however little
    size_t registered   = 0; // with the NIC, the same
    unsigned asked      = 0; // how often since
};

// By NIC and GPU. Where two pairs share a place, the latest: the other one is
// tried again.
class refusals {
public:
    refusal &of(unsigned nic, int device)
    {
        return all_[(nic * 16 + static_cast<unsigned>(device)) % all_.size()];
    }

private:
    std::array<refusal, 256> all_;
};

} // namespace ucx_ib_dmabuf
