// SPDX-License-Identifier: BSD-3-Clause
//
// How a NIC is connected with itself: over which partition, and from which of
// its addresses; how long it may be silent. That bytes arrive over it is the
// lab's to show.
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/prove/loopback.h>
#include <vector>

static std::atomic<int64_t> passed; // microseconds, and one with each look

// In place of libstdc++'s.
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
};

// A NIC with a port.
struct port {
    bool ethernet = true;
    std::vector<uint16_t> keys{0xffff};
    std::vector<address> addresses{{}};

    int queue_pairs = 0, asked = 0;
    int key = -1; // of the queue pair that came last
    std::vector<int> from{};
    int silent = 0; // polls without an answer, of a second each
} nic;

int query_device(ibv_context *, ibv_device_attr *attr)
{
    attr->phys_port_cnt = 1;
    return 0;
}

int query_port(ibv_context *, uint8_t, ibv_port_attr *attr)
{
    attr->state = IBV_PORT_ACTIVE;
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
    return &only;
}

int post_send(ibv_qp *, ibv_send_wr *, ibv_send_wr **)
{
    return 0;
}

int poll_cq(ibv_cq *, int, ibv_wc *done)
{
    if (nic.silent > 0) {
        --nic.silent;
        passed += 1000000;
        return 0;
    }
    *done = {};
    return 1;
}

int destroy_cq(ibv_cq *)
{
    EXPECT_EQ(0, nic.queue_pairs); // as a device refuses it
    return 0;
}

ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *)
{
    auto *made    = new ibv_qp{};
    made->context = pd->context;
    ++nic.queue_pairs;
    return made;
}

int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    if ((mask & IBV_QP_PKEY_INDEX) != 0) {
        nic.key = attr->pkey_index;
    }
    if ((attr->qp_state != IBV_QPS_RTR) || (attr->ah_attr.is_global == 0)) {
        return 0;
    }
    const uint8_t index = attr->ah_attr.grh.sgid_index;
    EXPECT_EQ(index + 1, attr->ah_attr.grh.dgid.raw[15]); // its own
    EXPECT_EQ(IBV_QPS_RESET, qp->state);
    qp->state = IBV_QPS_RTR; // each is moved there once
    if (nic.from.empty() || (nic.from.back() != index)) {
        nic.from.push_back(index);
    }
    return nic.addresses.at(index).connects ? 0 : ENETUNREACH;
}

int destroy_qp(ibv_qp *qp)
{
    --nic.queue_pairs;
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
    ~test_loopback() override { EXPECT_EQ(0, nic.queue_pairs); }

    const char *connect()
    {
        return loopback::to_itself({&pd_, &verbs_}).problem;
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
    EXPECT_TRUE(nic.from.empty()); // which needs no address
}

TEST_F(test_loopback, the_best_address_is_found_with_few_questions)
{
    nic.addresses = {{false, false}, {true, false}, {}, {}, {}};
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ(std::vector<int>{2}, nic.from);
    EXPECT_EQ(3, nic.asked);
}

TEST_F(test_loopback, another_address_is_tried_where_one_does_not_connect)
{
    nic.addresses = {{false, false}, {true, true, false}, {true, false}};
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

// While the GPU's driver copies, which may have much else to copy, nobody waits
// for the NIC.
TEST_F(test_loopback, silent_is_who_does_not_answer_while_he_is_asked)
{
    const transfer one{verb::write, {}, {}, 1};
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
}

} // namespace
} // namespace ucx_ib_dmabuf
