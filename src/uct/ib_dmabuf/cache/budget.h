// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_BUDGET_H_
#define UCX_IB_DMABUF_CACHE_BUDGET_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace ucx_ib_dmabuf {

// Something that is or will be registered: regions of one GPU.
struct amount {
    size_t bytes   = 0;
    size_t regions = 0;
};

// What is registered, against its limits. Under the cache's lock.
class budget {
public:
    explicit budget(size_t max_regions) : max_regions_(max_regions) {}

    bool knows(int device) const { return devices_.count(device) != 0; }
    void set_max_bytes(int device, size_t bytes)
    {
        devices_.try_emplace(device, gpu{bytes, 0});
    }

    // How much more than `freed` would have to go before `wanted` fits.
    amount lacking(int device, amount wanted, amount freed) const;
    // Could it ever fit, with nothing else registered?
    bool possible(int device, amount wanted) const;

    void add(int device, amount what);
    void remove(int device, amount what);

    size_t regions() const { return regions_; }
    uint64_t bytes() const;

private:
    struct gpu {
        size_t max_bytes;
        size_t bytes;
    };

    std::map<int, gpu> devices_;
    size_t max_regions_;
    size_t regions_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
