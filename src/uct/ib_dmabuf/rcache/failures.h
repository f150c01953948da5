// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// Registrations that failed, and their errors. One lasts until memory of it is
// released, the NIC is detached, or enough requests have come for another
// attempt. Stores the latest ones. Under the cache's lock, so the space is
// allocated in advance.
class failures {
public:
    static constexpr unsigned any_nic = ~0u;

    // Other errors than UCS_ERR_UNSUPPORTED may pass without notice: a lack of
    // file descriptors, or of room that another process used.
    static constexpr unsigned asked_again_after = 128;

    struct failure {
        uint64_t what; // identity of memory; slot of a GPU that lacks room
        unsigned nic;
        ucs_status_t status;
        address_range memory = everything;
        unsigned asked       = 0; // number of requests since
        // A lack of room: the bytes of the request, and of the GPU and of the
        // NIC with it, of which either is too much.
        size_t size       = 0;
        size_t mapped     = 0; // 0: any amount, as the next
        size_t registered = 0;

        bool is_of(uint64_t which, unsigned with) const
        {
            return what == which && (nic == with || nic == any_nic);
        }
    };

    // The failure with that NIC or with all NICs, or nullptr.
    failure *find(uint64_t what, unsigned nic)
    {
        const auto end = all_.begin() + count_;
        const auto found =
            std::find_if(all_.begin(), end, [=](const auto &each) {
                return each.is_of(what, nic);
            });
        return found == end ? nullptr : &*found;
    }
    // As find(), for a request: nullptr also if it is to be tried.
    const failure *ask(uint64_t what, unsigned nic, size_t size = 0)
    {
        failure *known = find(what, nic);
        if (known == nullptr || size < known->size) {
            return nullptr;
        }
        if (known->status != UCS_ERR_UNSUPPORTED &&
            ++known->asked == asked_again_after) {
            forget(what, nic);
            return nullptr;
        }
        return known;
    }
    // Replaces an earlier one.
    void add(const failure &latest)
    {
        forget(latest.what, latest.nic);
        if (count_ == all_.size()) {
            std::move(all_.begin() + 1, all_.end(), all_.begin());
            --count_;
        }
        all_[count_++] = latest;
    }
    void forget(address_range released)
    {
        forget_if(
            [=](const auto &each) { return each.memory.overlaps(released); });
    }
    // Called when it was registered after all.
    void forget(uint64_t what, unsigned nic)
    {
        forget_if([=](const auto &each) { return each.is_of(what, nic); });
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

} // namespace ucx_ib_dmabuf
