// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "queue_pair.h"
#include <bitset>
#include <chrono>
#include <uct/ib_dmabuf/ucx/verbs.h>

namespace ucx_ib_dmabuf {

// A connection of a NIC with itself over an active port, in the protection
// domain. Destroys its two queue pairs.
class loopback final : public wire {
public:
    static connection to_itself(const protection_domain &pd);
    ~loopback() override;
    loopback(const loopback &)            = delete;
    loopback &operator=(const loopback &) = delete;

    bool has_atomics() const override { return atomics_; }
    // UCX waits for seconds before it fails a message. After a timeout the
    // proof is repeated once, over another connection.
    std::optional<text> carry(std::span<const transfer> all) override;
    bool is_silent() const override { return silent_; }

private:
    explicit loopback(const protection_domain &pd);
    const char *connect(); // null, or why it failed
    bool find_port();
    bool find_gid();
    void find_partition(int count);
    ibv_qp *create_qp() const;
    bool connect(ibv_qp *qp, const ibv_qp *peer) const;
    void end_queue_pairs();
    std::optional<text> post(std::span<const transfer> all) const;

    const protection_domain pd_;
    const connection_functions &verbs_;
    bool atomics_  = false;
    bool silent_   = false;
    uint8_t port_  = 0;
    uint8_t reads_ = 1;
    ibv_mtu mtu_   = IBV_MTU_256;
    uint16_t key_  = 0;                  // index of the partition key
    int gids_      = 0;                  // size of the port's table
    std::bitset<UINT8_MAX + 1> tried_{}; // already tried ones
    // For all transfers; copies by the GPU's driver are not counted.
    std::chrono::steady_clock::duration left_ = std::chrono::seconds(5);
    ibv_ah_attr self_{};
    ibv_cq *cq_  = nullptr;
    ibv_qp *qp_  = nullptr;
    ibv_qp *far_ = nullptr;
};

} // namespace ucx_ib_dmabuf
