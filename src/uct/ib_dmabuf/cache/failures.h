// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../host/types.h"
#include "span.h"
#include <algorithm>
#include <array>

namespace ucx_ib_dmabuf {

// Memory that could not be exported, or not be registered with a NIC, and the
// error: until the memory is released or the NIC detached, or until it was
// asked for so often that it is worth another attempt. Of many the latest.
// Under the cache's lock, so all room for them is taken at the beginning.
class failures {
    struct failure {
        span memory{};
        uint64_t identity   = 0;
        unsigned nic        = 0;
        ucs_status_t status = UCS_OK;
        unsigned asked      = 0;

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

    // Of this memory with that NIC or with all, else nullptr.
    failure *find(uint64_t identity, unsigned nic)
    {
        const auto end = all_.begin() + count_;
        const auto found =
            std::find_if(all_.begin(), end, [=](const auto &each) {
                return each.is_of(identity, nic);
            });
        return found == end ? nullptr : &*found;
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
        if (count_ == all_.size()) {
            std::move(all_.begin() + 1, all_.end(), all_.begin());
            --count_;
        }
        all_[count_++] = {memory, identity, nic, status};
    }
    void forget(span released)
    {
        forget_if(
            [=](const auto &each) { return each.memory.overlaps(released); });
    }
    // It was registered, after all.
    void forget(uint64_t identity, unsigned nic)
    {
        forget_if([=](const auto &each) { return each.is_of(identity, nic); });
    }
    void forget(unsigned nic)
    {
        forget_if([=](const auto &each) { return each.nic == nic; });
    }

private:
    template <typename Which>
    void forget_if(Which which)
    {
        const auto end = all_.begin() + count_;
        count_ =
            size_t(std::remove_if(all_.begin(), end, which) - all_.begin());
    }

    std::array<failure, 256> all_; // the oldest first
    size_t count_ = 0;
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
