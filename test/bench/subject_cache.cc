// SPDX-License-Identifier: BSD-3-Clause
#include "fake_world.h"
#include "subject.h"
#include <cstdlib>
#include <uct/ib_dmabuf/cache/cache.h>

using ucx_ib_dmabuf::region;

namespace {

class cache_subject : public subject {
public:
    explicit cache_subject(size_t granule)
        : world_(granule), cache_(world_, {}), nic_(cache_.attach(world_))
    {
    }

    void insert(uintptr_t base, size_t stride, size_t, size_t count) override
    {
        for (size_t i = 0; i < count; ++i) {
            use(base + i * stride);
        }
    }

    void hit(const uintptr_t *addresses, size_t count) override
    {
        for (size_t i = 0; i < count; ++i) {
            use(addresses[i]);
        }
    }

    void churn(uintptr_t base, size_t stride, size_t size,
               size_t count) override
    {
        for (size_t i = 0; i < count; ++i) {
            use(base + i * stride);
        }
        for (size_t i = 0; i < count; ++i) {
            cache_.invalidate(base + i * stride, size);
        }
    }

private:
    void use(uintptr_t address)
    {
        const region *got = nullptr;
        if (cache_.get(nic_, address, 1024, &got) != UCS_OK) {
            abort();
        }
        cache_.put(got);
    }

    fake_world world_;
    ucx_ib_dmabuf::cache cache_;
    const ucx_ib_dmabuf::cache::nic_id nic_;
};

} // namespace

std::unique_ptr<subject> make_cache(size_t granule)
{
    return std::make_unique<cache_subject>(granule);
}
