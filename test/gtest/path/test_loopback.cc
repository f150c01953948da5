// SPDX-License-Identifier: BSD-3-Clause
//
// How a NIC connects with itself: its partition, its source address, and its
// time-out. The lab's tests check that bytes arrive.
#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <common/elsewhere.h>
#include <cstring>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/path/host_pages.h>
#include <uct/ib_dmabuf/path/loopback.h>
#include <utility>
#include <vector>

static std::atomic<int64_t> passed; // microseconds; each now() adds one

// Replaces libstdc++'s clock.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept
{
    return time_point(std::chrono::microseconds(++passed));
}

namespace ucx_ib_dmabuf {
namespace {

struct address {
    bool v2       = true;
    bool ipv4     = true;
    bool connects = true;
    bool there    = true; // else its table entry is empty
};

// A NIC with one active port.
struct port {
    int down         = 0; // inactive ports before it
    bool atomics     = true;
    int target_reads = 16, reads = 16; // RDMA reads at a time
    bool ethernet = true;
    std::vector<uint16_t> keys{0xffff};
    std::vector<address> addresses{{}};

    int queues = 0, queue_pairs = 0, ready = 0, asked = 0;
    int key       = -1; // the last queue pair's partition
    int used      = 0;  // its RDMA reads at a time
    size_t posted = 0;
    std::vector<int> from{};
    int silent           = 0;       // polls without an answer
    int64_t pause        = 1000000; // microseconds per silent poll
    ibv_wc_status answer = IBV_WC_SUCCESS;
} nic;

int query_device(ibv_context *, ibv_device_attr *attr)
{
    attr->phys_port_cnt       = static_cast<uint8_t>(nic.down + 1);
    attr->atomic_cap          = nic.atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
    attr->max_qp_rd_atom      = nic.target_reads;
    attr->max_qp_init_rd_atom = nic.reads;
    return 0;
}

int query_port(ibv_context *, uint8_t number, ibv_port_attr *attr)
{
    attr->state = (number > nic.down) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    attr->link_layer =
        nic.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    attr->gid_tbl_len  = static_cast<int>(nic.addresses.size());
    attr->pkey_tbl_len = static_cast<uint16_t>(nic.keys.size());
    return 0;
}

int query_gid(ibv_context *, uint32_t, uint32_t index, ibv_gid_entry *entry,
              uint32_t, size_t)
{
    const address &at = nic.addresses.at(index);

    ++nic.asked;
    entry->gid_type = at.v2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    if (!at.there) {
        return 0;
    }
    if (at.ipv4) {
        entry->gid.raw[10] = entry->gid.raw[11] = 255;
    } else {
        entry->gid.raw[0] = 0xfe;
    }
    entry->gid.raw[15] = static_cast<uint8_t>(index + 1);
    return 0;
}

int query_pkey(ibv_context *, uint8_t, int index, __be16 *key)
{
    *key = htons(nic.keys.at(static_cast<size_t>(index)));
    return 0;
}

ibv_cq *create_cq(ibv_context *context, int, void *, ibv_comp_channel *, int)
{
    static ibv_cq only{};
    only.context = context;
    ++nic.queues;
    return &only;
}

int post_send(ibv_qp *, ibv_send_wr *first, ibv_send_wr **)
{
    for (nic.posted = 0; first != nullptr; first = first->next) {
        EXPECT_EQ(nic.posted++, first->wr_id);
        EXPECT_TRUE((first->send_flags & IBV_SEND_SIGNALED) != 0);
        EXPECT_EQ(5u, first->sg_list->lkey);
        EXPECT_EQ(6u, first->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
                          ? first->wr.atomic.rkey
                          : first->wr.rdma.rkey);
    }
    return 0;
}

int poll_cq(ibv_cq *, int, ibv_wc *done)
{
    if (nic.silent > 0) {
        --nic.silent;
        passed += nic.pause;
        return 0;
    }
    *done        = {};
    done->status = nic.answer;
    return 1;
}

int destroy_cq(ibv_cq *)
{
    --nic.queues;
    EXPECT_EQ(0, nic.queue_pairs); // a device would refuse it
    return 0;
}

ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *)
{
    auto *made    = new ibv_qp{};
    made->context = pd->context;
    made->qp_num  = static_cast<uint32_t>(++nic.queue_pairs);
    return made;
}

int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    if ((mask & IBV_QP_PKEY_INDEX) != 0) {
        EXPECT_EQ(nic.down + 1, attr->port_num);
        nic.key = attr->pkey_index;
        const bool atomics =
            (attr->qp_access_flags & unsigned{IBV_ACCESS_REMOTE_ATOMIC}) != 0;
        return (atomics && !nic.atomics) ? EINVAL : 0;
    }
    if (attr->qp_state == IBV_QPS_RTS) {
        EXPECT_EQ(IBV_QPS_RTR, qp->state);
        ++nic.ready;
        nic.used = attr->max_rd_atomic;
        return (nic.used <= nic.reads) ? 0 : EINVAL;
    }
    EXPECT_EQ(IBV_QPS_RESET, qp->state);
    EXPECT_NE(qp->qp_num, attr->dest_qp_num);
    qp->state = IBV_QPS_RTR; // each one reaches RTR once
    if (attr->max_dest_rd_atomic > nic.target_reads) {
        return EINVAL;
    }
    if (attr->ah_attr.is_global == 0) {
        return 0;
    }
    const uint8_t index = attr->ah_attr.grh.sgid_index;
    EXPECT_EQ(index + 1, attr->ah_attr.grh.dgid.raw[15]); // its own GID
    if (nic.from.empty() || (nic.from.back() != index)) {
        nic.from.push_back(index);
    }
    return nic.addresses.at(index).connects ? 0 : ENETUNREACH;
}

int destroy_qp(ibv_qp *qp)
{
    --nic.queue_pairs;
    nic.ready = 0;
    delete qp;
    return 0;
}

class test_loopback : public ::testing::Test {
protected:
    test_loopback()
    {
        nic                    = port{};
        verbs_.connection      = {query_device, query_port, query_gid,
                                  query_pkey,   create_cq,  destroy_cq,
                                  create_qp,    modify_qp,  destroy_qp};
        pd_.context            = &context_;
        context_.ops.poll_cq   = poll_cq;
        context_.ops.post_send = post_send;
    }
    ~test_loopback() override
    {
        EXPECT_EQ(0, nic.queue_pairs);
        EXPECT_EQ(0, nic.queues);
    }

    const char *connect()
    {
        const connection made = loopback::to_itself({&pd_, &verbs_});

        EXPECT_EQ(made.by ? 2 : 0, nic.ready);
        return made.problem;
    }

    verbs_functions verbs_{};
    ibv_context context_{};
    ibv_pd pd_{};
};

TEST_F(test_loopback, a_limited_member_of_a_partition_does_not_hear_itself)
{
    nic.ethernet = false;
    nic.keys     = {0x7fff, 0, 0x8001, 0xffff};
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ(2, nic.key);
    nic.keys = {0x7fff, 0x0001};
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ(0, nic.key);
    EXPECT_TRUE(nic.from.empty()); // InfiniBand needs no GID
}

TEST_F(test_loopback, the_best_address_is_found_with_few_questions)
{
    nic.addresses = {{false, false}, {true, false}, {}, {}, {}};
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ(std::vector<int>{2}, nic.from);
    EXPECT_EQ(3, nic.asked);
}

// A NIC refuses more than it supports.
TEST_F(test_loopback, a_nic_is_asked_for_what_it_has)
{
    nic.down    = 1;
    nic.atomics = false;
    for (auto [target, own] : {std::pair{4, 16}, {16, 4}, {100, 100}}) {
        nic.target_reads = target;
        nic.reads        = own;
        EXPECT_EQ(nullptr, connect());
        EXPECT_EQ(std::min({target, own, 16}), nic.used);
    }
}

TEST_F(test_loopback, host_pages_end_with_their_registration)
{
    static int registered;
    const protection_domain pd{&pd_, &verbs_};
    void *at        = nullptr;
    const auto gone = [&] { return msync(at, 4096, MS_ASYNC) != 0; };

    verbs_.reg_iova = [](ibv_pd *, void *, size_t, uint64_t, int) {
        static ibv_mr mr;
        ++registered;
        return &mr;
    };
    verbs_.dereg = [](ibv_mr *) { return --registered; };
    {
        const host_pages pages(pd, 4096);
        at = reinterpret_cast<void *>(pages.at().address);
        EXPECT_EQ(1, registered);
        EXPECT_TRUE(in_child(gone)); // a child does not inherit them
    }
    EXPECT_EQ(0, registered);
    EXPECT_TRUE(gone());
}

TEST_F(test_loopback, all_is_posted_at_once_and_by_its_keys)
{
    const place local{0, 5, 0}, remote{0, 0, 6};
    const connection over = loopback::to_itself({&pd_, &verbs_});
    const transfer all[]  = {{verb::write, local, remote, 1},
                             {verb::read, local, remote, 1},
                             {verb::fetch_add, local, remote, 8}};
    EXPECT_FALSE(over.by->carry(all));
    EXPECT_EQ(3u, nic.posted);
}

TEST_F(test_loopback, another_address_is_tried_where_one_does_not_connect)
{
    nic.addresses          = {{}, {true, true, false}, {true, false}};
    nic.addresses[0].there = false;
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ((std::vector<int>{1, 2}), nic.from);
}

TEST_F(test_loopback, not_all_addresses_are_tried)
{
    nic.addresses.assign(256, {true, true, false});
    EXPECT_STREQ("it does not connect with itself", connect());
    EXPECT_EQ((std::vector<int>{0, 1, 2, 3}), nic.from);
    nic.addresses.clear();
    EXPECT_STREQ("it does not connect with itself", connect());
}

// Only the time spent in polling counts. The GPU's driver may copy for long
// between two operations.
TEST_F(test_loopback, silent_is_who_does_not_answer_while_he_is_asked)
{
    const transfer one{verb::write, {0, 5, 0}, {0, 0, 6}, 1};
    const protection_domain pd{&pd_, &verbs_};
    const auto carry = [&](wire &over, int silent) {
        passed += 10000000;
        nic.silent = silent;
        return !over.carry({&one, 1});
    };

    connection over = loopback::to_itself(pd);
    for (bool good : {true, true, true, true, true, false}) {
        EXPECT_EQ(good, carry(*over.by, 1));
    }
    EXPECT_TRUE(over.by->is_silent());
    over.by.reset();
    over = loopback::to_itself(pd);
    EXPECT_FALSE(carry(*over.by, 4));
    EXPECT_TRUE(over.by->is_silent());

    over.by.reset();
    over      = loopback::to_itself(pd);
    nic.pause = 10000000; // the machine stopped while the answer came
    EXPECT_TRUE(carry(*over.by, 1));
    for (auto status : {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR}) {
        over.by.reset();
        over       = loopback::to_itself(pd);
        nic.answer = status;
        EXPECT_FALSE(carry(*over.by, 0));
        EXPECT_EQ(status == IBV_WC_RETRY_EXC_ERR, over.by->is_silent());
    }
}

} // namespace
} // namespace ucx_ib_dmabuf
