// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/ucx.h>
#include <functional>
#include <map>
#include <set>
#include <string>

// uct_ib of UCX 1.16 and later, without a device: the plug-in's own memory
// domain code is linked with it, so that it can be tested anywhere. It keeps
// count.
namespace fake_ib {

// uct_ib_mem_t, and what was registered.
struct memory {
    uint32_t lkey, rkey, flags;
    uintptr_t address;
    size_t length;
    ibv_mr *mr; // of a dma-buf; null: host memory
};

// What a device saw of dma-bufs.
struct dmabufs {
    uint64_t made = 0, ended = 0, bytes = 0;
};

// UCT_MD_FLAG_*, beside that of dma-bufs.
constexpr uint64_t other_flags = 1u << 2 | 1u << 9 | 1u << 11;

struct counts {
    std::set<ibv_mr *> regions; // of dma-bufs, registered now
    std::map<std::string, dmabufs> of_device;
    unsigned asked      = 0;          // mem_reg calls without a dma-buf
    unsigned host       = 0;          // handles of these that are out
    unsigned domains    = 0;          // open, or closed with others' operations
    int fail_verbs      = 0;          // errno of registrations that fail
    unsigned fail_every = 1;          // of how many one does
    size_t most         = SIZE_MAX;   // regions; beyond that EAGAIN
    bool gone           = false;      // the NIC: EIO, and no key is valid
    ucs_status_t fail   = UCS_OK;     // of each mem_reg without a dma-buf
    std::function<void()> during_reg; // of a dma-buf
    std::function<void()> during_dereg;
    std::function<void()> during_pack;
    // The last registration of a dma-buf, and the last key.
    ucx_ib_dmabuf::uct_md_mem_reg_params_t reg_params{};
    struct {
        size_t length;
        unsigned flags;
    } packed{};
    // What a domain says of itself; by default: there is no peer memory.
    uint64_t flags        = ucx_ib_dmabuf::UCT_MD_FLAG_REG_DMABUF | other_flags;
    uint64_t memory_types = 1u << ucx_ib_dmabuf::UCS_MEMORY_TYPE_HOST;
    // What an interface was opened with, by which transport.
    ucx_ib_dmabuf::uct_iface_params_t opened{};
    const char *open_by    = nullptr;
    ucs_status_t fail_open = UCS_OK;
};
extern counts now;

// "fake", the last of the component's; there is "other", too.
extern ucx_ib_dmabuf::uct_tl_t transport;

// The region that a key belongs to; null if it is not valid (any more).
const ibv_mr *find(uint32_t key);

} // namespace fake_ib

extern "C" ucx_ib_dmabuf::whole_component uct_ib_component;
