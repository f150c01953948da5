// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_BENCH_FAKE_WORLD_H_
#define UCX_IB_DMABUF_TEST_BENCH_FAKE_WORLD_H_

#include "../../src/uct/ib_dmabuf/cache/provider.h"

// Device memory above an address, an allocation every `stride` bytes; host
// memory below. A NIC that registers everything. Both without cost.
class fake_world : public ucx_ib_dmabuf::exporter,
                   public ucx_ib_dmabuf::registrar {
    using ucs_status_t = ucx_ib_dmabuf::ucs_status_t;
    using enum ucx_ib_dmabuf::ucs_status_t;

public:
    static constexpr uintptr_t first = uintptr_t{1} << 40;

    explicit fake_world(size_t stride) : stride_(stride) {}

    ucs_status_t describe(uintptr_t address,
                          ucx_ib_dmabuf::extent *out) override
    {
        if (address < first) {
            return UCS_ERR_NO_ELEM;
        }
        *out = {.base     = address - (address - first) % stride_,
                .size     = stride_,
                .identity = (address - first) / stride_,
                .device   = 0};
        return UCS_OK;
    }
    bool is_current(uintptr_t address, uint64_t identity) override
    {
        return identity == (address - first) / stride_;
    }
    ucs_status_t export_range(uintptr_t, size_t, int *fd) override
    {
        *fd = -1;
        return UCS_OK;
    }
    size_t granularity() const override { return 4096; }
    ucs_status_t reg(int, uintptr_t, size_t, void **handle) override
    {
        *handle = this;
        return UCS_OK;
    }
    void dereg(void *) override {}

private:
    const size_t stride_;
};

#endif
