// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <uct/ib_dmabuf/rcache/rcache.h>
#include <uct/ib_dmabuf/ucx/ucp.h>

// The ranges of the entries in UCP's cache of memory handles.
namespace ucx_ib_dmabuf {

// NICs that UCP registers with together.
class nic_list {
public:
    // The list is empty if there are too many.
    void add(rcache::nic_id nic)
    {
        if (!has(nic)) {
            all_[count_++ % all_.size()] = nic;
        }
    }
    bool has(rcache::nic_id nic) const
    {
        return std::find(begin(), end(), nic) != end();
    }
    const rcache::nic_id *begin() const { return all_.data(); }
    const rcache::nic_id *end() const
    {
        return begin() + ((count_ <= max) ? count_ : 0);
    }
    size_t size() const { return end() - begin(); }

    static constexpr size_t max = 16;

private:
    std::array<rcache::nic_id, max> all_{};
    size_t count_ = 0;
};

// The NICs that UCP asks in the miss of its cache that this thread handles;
// nullptr if it handles none.
constinit inline thread_local nic_list *asked_in_miss = nullptr;

// Has UCP make one entry of its cache for a whole allocation, if that is
// registered: all that lies inside is a hit then.
ucs_status_t get_gpu_memh(const memh_request &request) noexcept;
// Before the NIC is detached.
void forget_asked(rcache::nic_id nic) noexcept;

} // namespace ucx_ib_dmabuf
