// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <uct/ib_dmabuf/gpu/address_range.h>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// Memory that could not be exported, or not be registered with a NIC, and the
// error. An entry lasts until the memory is released, the NIC detached, or
// enough requests have come for another attempt. Stores the latest ones. Under
// the cache's lock, so the space is allocated in advance.
class failures {
    struct failure {
        address_range memory{};
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

    // Other errors than UCS_ERR_UNSUPPORTED may pass without notice: a lack of
    // file descriptors, or of room that another process used.
    static constexpr unsigned asked_again_after = 128;

    // The failure of this memory with that NIC or with all NICs, or nullptr.
    failure *find(uint64_t identity, unsigned nic)
    {
        const auto end = all_.begin() + count_;
        const auto found =
            std::find_if(all_.begin(), end, [=](const auto &each) {
                return each.is_of(identity, nic);
            });
        return found == end ? nullptr : &*found;
    }
    // Returns the error for a request, or UCS_OK if it is to be tried.
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
    void add(address_range memory, uint64_t identity, unsigned nic,
             ucs_status_t status)
    {
        if (count_ == all_.size()) {
            std::move(all_.begin() + 1, all_.end(), all_.begin());
            --count_;
        }
        all_[count_++] = {memory, identity, nic, status};
    }
    void forget(address_range released)
    {
        forget_if(
            [=](const auto &each) { return each.memory.overlaps(released); });
    }
    // Called when it was registered after all.
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

    std::array<failure, 256> all_; // oldest first
    size_t count_ = 0;
};

// The latest refusal for lack of room. The error does not tell the GPU from the
// NIC, so this is for the pair. Requests of that size or more are refused while
// as much of both is in use and nothing was released.
struct refusal {
    unsigned nic        = 0;
    int device          = -1; // slot in the budget
    ucs_status_t status = UCS_OK;
    uint64_t time       = 0; // of the release log
    size_t size         = 0; // bytes, as the next
    size_t mapped       = 0; // of the GPU, including it; 0: any amount
    size_t registered   = 0; // with the NIC, likewise
    unsigned asked      = 0; // number of requests since
};

// Indexed by NIC and GPU. Two pairs may share a slot, which holds the latest
// refusal: the other pair is tried again.
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
