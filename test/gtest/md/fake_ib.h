// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_MD_FAKE_IB_H_
#define TEST_GTEST_MD_FAKE_IB_H_

#include <common/ucx_headers.h>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

// uct_ib and libibverbs, without a device: the plug-in's own memory domain code
// is linked with these, so that it can be tested anywhere. Both keep count.
namespace fake_ib {

// A registration of host memory by uct_ib.
struct host_memory {
    uct_ib_mem_t super;
    void *address;
    size_t length;
};

// What a device saw of dma-bufs.
struct dmabufs {
    uint64_t made = 0, ended = 0, bytes = 0;
};

struct counts {
    std::set<ibv_mr *> regions; // of dma-bufs, registered now
    std::set<ibv_mr *> copies;  // of host memory under other addresses
    std::map<std::string, dmabufs> of_device;
    unsigned asked       = 0;         // mem_reg calls that uct_ib itself got
    unsigned asked_aloud = 0;         // those that would print their failure
    unsigned host        = 0;         // handles of uct_ib's that are out
    unsigned domains     = 0;         // open
    int fail_verbs       = 0;         // errno of registrations that fail
    unsigned fail_every  = 1;         // of how many one does
    bool gone            = false;     // the NIC: EIO, and no key is valid
    size_t locked_max    = SIZE_MAX;  // copies and host memory, at a time
    ucs_status_t fail    = UCS_OK;    // of each mem_reg of uct_ib's
    std::function<void()> during_reg; // of a dma-buf
    std::function<void()> during_dereg;
    // What an interface was opened with, by which transport.
    uct_iface_params_t opened{};
    const char *open_by    = nullptr;
    ucs_status_t fail_open = UCS_OK;
};
extern counts now;

// "fake", the last of the component's; there is "other", too.
extern uct_tl_t transport;

// The region that a key belongs to; null if it is not valid (any more).
const ibv_mr *find(uint32_t key);

} // namespace fake_ib

#endif
