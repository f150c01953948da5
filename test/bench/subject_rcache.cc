// SPDX-License-Identifier: BSD-3-Clause
#include "subject.h"
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

// Not an installed header: the only file here that sees UCX's own.
extern "C" {
#include <ucs/memory/rcache.h>
}

namespace {

ucs_status_t reg(void *, ucs_rcache_t *, void *, ucs_rcache_region_t *,
                 uint16_t)
{
    return UCS_OK;
}

void dereg(void *, ucs_rcache_t *, ucs_rcache_region_t *) {}

void dump(void *, ucs_rcache_t *, ucs_rcache_region_t *, char *buf, size_t max)
{
    if (max > 0) {
        *buf = '\0';
    }
}

void gone(void *) {}

// As uct_ib sets it up, but for the events: invalidation is asked for.
class rcache_subject : public subject {
public:
    rcache_subject()
    {
        static const ucs_rcache_ops_t ops = {reg, dereg, dump};
        ucs_rcache_params_t params        = {};
        params.region_struct_size         = sizeof(ucs_rcache_region_t) + 64;
        params.alignment                  = UCS_RCACHE_MIN_ALIGNMENT;
        params.max_alignment              = 4096;
        params.ops                        = &ops;
        params.flags                      = UCS_RCACHE_FLAG_NO_PFN_CHECK;
        params.max_regions                = ULONG_MAX;
        params.max_size                   = SIZE_MAX;
        params.max_unreleased             = SIZE_MAX;
        if (ucs_rcache_create(&params, "peer", nullptr, &rcache_) != UCS_OK) {
            abort();
        }
    }
    ~rcache_subject() override { ucs_rcache_destroy(rcache_); }

    void insert(uintptr_t base, size_t stride, size_t size,
                size_t count) override
    {
        for (size_t i = 0; i < count; ++i) {
            ucs_rcache_region_put(rcache_, take(base + i * stride, size));
        }
    }

    void hit(const uintptr_t *addresses, size_t count) override
    {
        for (size_t i = 0; i < count; ++i) {
            ucs_rcache_region_put(rcache_, take(addresses[i], 1024));
        }
    }

    void churn(uintptr_t base, size_t stride, size_t size,
               size_t count) override
    {
        insert(base, stride, size, count);
        for (size_t i = 0; i < count; ++i) {
            ucs_rcache_region_t *region = take(base + i * stride, size);
            ucs_rcache_region_invalidate(rcache_, region, gone, nullptr);
            ucs_rcache_region_put(rcache_, region);
        }
    }

private:
    ucs_rcache_region_t *take(uintptr_t address, size_t size)
    {
        ucs_rcache_region_t *region;
        if (ucs_rcache_get(rcache_, reinterpret_cast<void *>(address), size,
                           PROT_READ | PROT_WRITE, nullptr,
                           &region) != UCS_OK) {
            abort();
        }
        return region;
    }

    ucs_rcache_t *rcache_ = nullptr;
};

} // namespace

std::unique_ptr<subject> make_rcache()
{
    return std::make_unique<rcache_subject>();
}
