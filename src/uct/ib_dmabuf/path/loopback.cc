// SPDX-License-Identifier: BSD-3-Clause
#include "loopback.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <endian.h>
#include <sched.h>

namespace ucx_ib_dmabuf {
namespace {

using clock = std::chrono::steady_clock;

// Limit for a completion; a check takes some milliseconds.
constexpr std::chrono::seconds patience{2};
constexpr int most_addresses = 4; // to try

} // namespace

loopback::loopback(const protection_domain &pd)
    : pd_(pd.verbs_pd), verbs_(pd.verbs->connection), problem_(connect())
{
}

loopback::~loopback()
{
    end_queue_pairs();
    if (cq_ != nullptr) {
        verbs_.destroy_cq(cq_);
    }
}

void loopback::end_queue_pairs()
{
    for (ibv_qp **qp : {&qp_, &far_}) {
        if (*qp != nullptr) {
            verbs_.destroy_qp(*qp);
            *qp = nullptr;
        }
    }
}

const char *loopback::connect()
{
    if (!verbs_.complete()) {
        return "this libibverbs lacks functions to connect it with itself";
    }
    if (!find_port()) {
        return "it has no port that is active";
    }
    cq_ =
        verbs_.create_cq(pd_->context, 2 * max_transfers, nullptr, nullptr, 0);
    if (cq_ == nullptr) {
        return "it gives no queue pairs to try";
    }
    // An address may belong to an interface that is down.
    const bool has_addresses = self_.is_global != 0;
    for (int i = 0; i < (has_addresses ? most_addresses : 1); ++i) {
        if (has_addresses && !find_gid()) {
            break;
        }
        end_queue_pairs();
        qp_  = create_qp();
        far_ = (qp_ != nullptr) ? create_qp() : nullptr;
        if (far_ == nullptr) {
            return "it gives no queue pairs to try";
        }
        if (connect(qp_, far_) && connect(far_, qp_)) {
            return nullptr;
        }
    }
    return "it does not connect with itself";
}

bool loopback::find_port()
{
    ibv_context *context = pd_->context;
    ibv_device_attr device{};

    if (verbs_.query_device(context, &device) != 0) {
        return false;
    }
    atomics_ = device.atomic_cap != IBV_ATOMIC_NONE;
    for (uint8_t number = 1; number <= device.phys_port_cnt; ++number) {
        ibv_port_attr port{};
        if ((verbs_.query_port(context, number, &port) != 0) ||
            (port.state != IBV_PORT_ACTIVE)) {
            continue;
        }
        port_          = number;
        mtu_           = port.active_mtu;
        self_.port_num = number;
        self_.dlid     = port.lid;
        find_partition(port.pkey_tbl_len);
        if ((port.link_layer == IBV_LINK_LAYER_ETHERNET) ||
            ((port.flags & IBV_QPF_GRH_REQUIRED) != 0)) {
            self_.is_global     = 1;
            self_.grh.hop_limit = 64;
            gids_ = std::min<int>(port.gid_tbl_len, UINT8_MAX + 1);
        }
        return true;
    }
    return false;
}

// Chooses a full member's key, as UCX does: two limited members of a partition
// cannot communicate. Without one, the first key.
void loopback::find_partition(int count)
{
    constexpr uint16_t full = 0x8000;

    for (int i = 0; i < std::min(count, UINT8_MAX + 1); ++i) {
        __be16 key = 0;
        if ((verbs_.query_pkey(pd_->context, port_, i, &key) == 0) &&
            ((be16toh(key) & full) != 0)) {
            key_ = static_cast<uint16_t>(i);
            return;
        }
    }
}

// Finds the best address not tried yet: RoCE v2 before version 1, then IPv4
// before others.
bool loopback::find_gid()
{
    constexpr uint8_t ipv4_prefix[12] = {0, 0, 0, 0, 0,   0,
                                         0, 0, 0, 0, 255, 255};
    int best                          = 0;

    // A query is a system call, and tables have hundreds, mostly empty.
    for (int i = 0; i < gids_ && best < 4; ++i) {
        ibv_gid_entry entry{};
        if (tried_[static_cast<size_t>(i)] ||
            (verbs_.query_gid(pd_->context, port_, static_cast<uint32_t>(i),
                              &entry, 0, sizeof(entry)) != 0) ||
            ((entry.gid.global.subnet_prefix == 0) &&
             (entry.gid.global.interface_id == 0))) {
            continue;
        }
        const bool v2   = entry.gid_type == IBV_GID_TYPE_ROCE_V2;
        const bool ipv4 = memcmp(entry.gid.raw, ipv4_prefix, 12) == 0;
        const int worth = 1 + (v2 ? 2 : 0) + (ipv4 ? 1 : 0);
        if (worth > best) {
            best                 = worth;
            self_.grh.dgid       = entry.gid;
            self_.grh.sgid_index = static_cast<uint8_t>(i);
        }
    }
    if (best > 0) {
        tried_[self_.grh.sgid_index] = true;
    }
    return best > 0;
}

ibv_qp *loopback::create_qp() const
{
    ibv_qp_init_attr attr{};

    // Not sq_sig_all: with it mlx5 would let the CPU write the data of a read
    // into GPU memory (scatter to CQE).
    attr.qp_type          = IBV_QPT_RC;
    attr.send_cq          = cq_;
    attr.recv_cq          = cq_;
    attr.cap.max_send_wr  = max_transfers;
    attr.cap.max_recv_wr  = 1;
    attr.cap.max_send_sge = 1;
    attr.cap.max_recv_sge = 1;
    return verbs_.create_qp(pd_, &attr);
}

bool loopback::connect(ibv_qp *qp, const ibv_qp *peer) const
{
    ibv_qp_attr attr{};

    attr.qp_state        = IBV_QPS_INIT;
    attr.port_num        = port_;
    attr.pkey_index      = key_;
    attr.qp_access_flags = all_access; // some devices refuse what they lack
    if (!atomics_) {
        attr.qp_access_flags &= ~unsigned{IBV_ACCESS_REMOTE_ATOMIC};
    }
    if (verbs_.modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             IBV_QP_ACCESS_FLAGS) != 0) {
        return false;
    }
    attr.qp_state           = IBV_QPS_RTR;
    attr.path_mtu           = mtu_;
    attr.dest_qp_num        = peer->qp_num;
    attr.ah_attr            = self_;
    attr.max_dest_rd_atomic = 1; // reads at a time
    attr.min_rnr_timer      = 12;
    if (verbs_.modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                             IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC |
                             IBV_QP_MIN_RNR_TIMER) != 0) {
        return false;
    }
    attr.qp_state      = IBV_QPS_RTS;
    attr.timeout       = 14; // 67 ms
    attr.retry_cnt     = 7;
    attr.rnr_retry     = 7;
    attr.max_rd_atomic = 1;
    return verbs_.modify_qp(qp, &attr,
                            IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

// Posts one list, with one doorbell.
std::optional<text> loopback::post(std::span<const transfer> all) const
{
    std::array<ibv_sge, max_transfers> local{};
    std::array<ibv_send_wr, max_transfers> requests{};
    ibv_send_wr *bad = nullptr;

    for (size_t i = 0; i < all.size(); ++i) {
        const transfer &what = all[i];
        ibv_send_wr &request = requests[i];
        local[i]           = {what.local.address, what.length, what.local.lkey};
        request.wr_id      = i;
        request.sg_list    = &local[i];
        request.num_sge    = 1;
        request.send_flags = IBV_SEND_SIGNALED;
        request.next       = (i + 1 < all.size()) ? &request + 1 : nullptr;
        if (what.what == verb::fetch_add) {
            request.opcode                = IBV_WR_ATOMIC_FETCH_AND_ADD;
            request.wr.atomic.remote_addr = what.remote.address;
            request.wr.atomic.rkey        = what.remote.rkey;
            request.wr.atomic.compare_add = 1;
        } else {
            request.opcode = (what.what == verb::write) ? IBV_WR_RDMA_WRITE
                                                        : IBV_WR_RDMA_READ;
            request.wr.rdma.remote_addr = what.remote.address;
            request.wr.rdma.rkey        = what.remote.rkey;
        }
    }
    const int error = qp_->context->ops.post_send(qp_, requests.data(), &bad);
    if (error != 0) {
        return format("%u bytes cannot be posted: %s",
                      all[(bad != nullptr) ? bad->wr_id : 0].length,
                      strerror(error));
    }
    return std::nullopt;
}

std::optional<text> loopback::run(std::span<const transfer> all)
{
    const clock::time_point begin = clock::now();
    const clock::time_point end =
        begin + std::min<clock::duration>(patience, left_);
    size_t over = 0;

    std::optional<text> failure = post(all);
    if (failure) {
        return failure;
    }
    while (over < all.size()) {
        // Before the poll, as this process may be stopped after it.
        const bool late = clock::now() > end;
        ibv_wc done{};
        const int count = cq_->context->ops.poll_cq(cq_, 1, &done);
        if (count < 0) {
            return text("the completion queue fails");
        }
        if (count == 0) {
            if (late) {
                silent_ = true;
                return format("no answer for %u bytes", all[over].length);
            }
            sched_yield();
        } else if (done.status != IBV_WC_SUCCESS) {
            silent_ = done.status == IBV_WC_RETRY_EXC_ERR;
            return format("%u bytes: %s (status %d)", all[done.wr_id].length,
                          verbs_.wc_status_str(done.status),
                          static_cast<int>(done.status));
        } else {
            ++over;
        }
    }
    left_ -= clock::now() - begin;
    return std::nullopt;
}

} // namespace ucx_ib_dmabuf
