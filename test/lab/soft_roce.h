// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <vector>

// Two connected queue pairs of the lab's NIC, for tests. Not thread-safe. Each
// failure throws an exception, which ends the test.
namespace ucx_ib_dmabuf::test {

constexpr int ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

struct mr_deleter {
    void operator()(ibv_mr *mr) const { ibv_dereg_mr(mr); }
};
using region = std::unique_ptr<ibv_mr, mr_deleter>;

class nic {
public:
    explicit nic(ibv_pd *pd);
    ~nic() { disconnect(); }
    nic(const nic &)            = delete;
    nic &operator=(const nic &) = delete;

    // Registers host memory.
    region reg(std::vector<uint8_t> &memory);

    // Runs one RDMA operation from the first to the second queue pair and
    // returns the status of its completion. After an error the two are
    // connected anew.
    ibv_wc_status transfer(ibv_wr_opcode opcode, const void *local,
                           uint32_t lkey, uint64_t remote, uint32_t rkey,
                           size_t length);

private:
    void connect();
    void disconnect();

    ibv_pd *pd_;
    ibv_cq *cq_     = nullptr;
    ibv_qp *qps_[2] = {};
};

} // namespace ucx_ib_dmabuf::test
