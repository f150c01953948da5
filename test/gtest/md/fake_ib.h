// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/ucx.h>
#include <functional>
#include <infiniband/verbs.h>
#include <map>
#include <set>
#include <string>

// uct_ib of UCX 1.16 and later, without a device. Linked with the plug-in's
// memory domain code, so that tests of it run anywhere. Counts its calls.
namespace fake_ib {

// uct_ib_mem_t, and the registered range.
struct memory {
    uint32_t lkey, rkey, flags;
    uintptr_t address;
    size_t length;
    ibv_mr *mr; // of a dma-buf; nullptr for host memory
};

// A device's dma-buf registrations.
struct dmabufs {
    uint64_t made = 0, ended = 0, bytes = 0;
};

// UCT_MD_FLAG_*, without that of dma-bufs.
constexpr uint64_t other_flags = 1u << 2 | 1u << 9 | 1u << 11;

struct counts {
    std::set<ibv_mr *> regions; // live registrations of dma-bufs
    std::map<std::string, dmabufs> of_device;
    unsigned asked      = 0;          // mem_reg calls without a dma-buf
    unsigned host       = 0;          // live handles of such calls
    unsigned domains    = 0;          // open, or closed with changed operations
    int fail_verbs      = 0;          // errno of failing registrations
    unsigned fail_every = 1;          // one of this many fails
    size_t most         = SIZE_MAX;   // maximum of regions; EAGAIN beyond it
    bool gone           = false;      // NIC removed: EIO, and no key is valid
    ucs_status_t fail   = UCS_OK;     // result of mem_reg without a dma-buf
    std::function<void()> during_reg; // called for a dma-buf
    std::function<void()> during_dereg;
    std::function<void()> during_pack;
    // The last registration of a dma-buf, and the last packed key.
    ucx_ib_dmabuf::uct_md_mem_reg_params_t reg_params{};
    struct {
        size_t length;
        unsigned flags;
    } packed{};
    // The domains' attributes; without peer memory by default.
    uint64_t flags        = ucx_ib_dmabuf::UCT_MD_FLAG_REG_DMABUF | other_flags;
    uint64_t memory_types = 1u << ucx_ib_dmabuf::UCS_MEMORY_TYPE_HOST;
    // Given to whoever opens one.
    ucx_ib_dmabuf::uct_iface_h iface = nullptr;
    // Parameters and transport of the last interface that was opened.
    ucx_ib_dmabuf::uct_iface_params_t opened{};
    const char *open_by    = nullptr;
    ucs_status_t fail_open = UCS_OK;
};
extern counts now;

// "fake", the component's last transport; there is "other", too.
extern ucx_ib_dmabuf::uct_tl_t transport;

// The operations of a domain that the plug-in leaves alone.
extern void *ops[ucx_ib_dmabuf::max_md_ops];

// Returns the region of a key, or nullptr if the key is not valid (any more).
const ibv_mr *find(uint32_t key);

} // namespace fake_ib

extern "C" ucx_ib_dmabuf::uct_component_t uct_ib_component;
