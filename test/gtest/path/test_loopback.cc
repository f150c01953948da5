// SPDX-License-Identifier: BSD-3-Clause
//
// How a NIC connects with itself: its partition, its source address, and its
// time-out. The lab's tests check that bytes arrive.
#include "fake_nic.h"
#include <common/elsewhere.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <uct/ib_dmabuf/path/loopback.h>

using namespace path_test;

namespace {

class test_loopback : public ::testing::Test {
protected:
    const char *connect()
    {
        const loopback made(nic_.pd());

        EXPECT_EQ(made.problem() == nullptr ? 2 : 0, nic_.ready);
        return made.problem();
    }

    fake_nic nic_;
};

TEST_F(test_loopback, a_limited_member_of_a_partition_does_not_hear_itself)
{
    nic_.ethernet = false;
    nic_.keys     = {0x7fff, 0, 0x8001, 0xffff};
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ(2, nic_.partition);
    nic_.keys = {0x7fff, 0x0001};
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ(0, nic_.partition);
    EXPECT_TRUE(nic_.tried.empty()); // InfiniBand needs no GID
}

TEST_F(test_loopback, the_best_address_is_found_with_few_questions)
{
    nic_.addresses = {{false, false}, {true, false}, {}, {}, {}};
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ(std::vector<int>{2}, nic_.tried);
    EXPECT_EQ(3, nic_.asked);
}

// A NIC refuses more than it supports.
TEST_F(test_loopback, a_nic_is_asked_for_what_it_has)
{
    nic_.down    = 1;
    nic_.atomics = false;
    EXPECT_EQ(nullptr, connect());
}

TEST_F(test_loopback, host_pages_end_with_their_registration)
{
    const protection_domain pd = nic_.pd();
    void *at                   = nullptr;
    const auto gone            = [&] { return msync(at, 4096, MS_ASYNC) != 0; };

    {
        const host_pages pages(pd, 4096);
        at = reinterpret_cast<void *>(pages.at().address);
        EXPECT_EQ(1, nic_.host_regions);
        EXPECT_TRUE(in_child(gone)); // a child does not inherit them
    }
    EXPECT_EQ(0, nic_.host_regions);
    EXPECT_TRUE(gone());
}

TEST_F(test_loopback, all_is_posted_at_once_and_by_its_keys)
{
    const registered_buffer local{0, 5, 0}, far{0, 0, 6};
    loopback over(nic_.pd());
    const transfer all[] = {{verb::write, local, far, 1},
                            {verb::read, local, far, 1},
                            {verb::fetch_add, local, far, 8}};
    nic_.transfer        = [](const ibv_send_wr &what) {
        EXPECT_EQ(5u, what.sg_list->lkey);
        EXPECT_EQ(6u, (what.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
                                 ? what.wr.atomic.rkey
                                 : what.wr.rdma.rkey);
        return IBV_WC_SUCCESS;
    };
    EXPECT_FALSE(over.run(all));
    EXPECT_EQ(3u, nic_.posted.size());
}

TEST_F(test_loopback, another_address_is_tried_where_one_does_not_connect)
{
    nic_.addresses          = {{}, {true, true, false}, {true, false}};
    nic_.addresses[0].there = false;
    EXPECT_EQ(nullptr, connect());
    EXPECT_EQ((std::vector<int>{1, 2}), nic_.tried);
}

TEST_F(test_loopback, not_all_addresses_are_tried)
{
    nic_.addresses.assign(256, {true, true, false});
    EXPECT_STREQ("it does not connect with itself", connect());
    EXPECT_EQ((std::vector<int>{0, 1, 2, 3}), nic_.tried);
    nic_.addresses.clear();
    EXPECT_STREQ("it does not connect with itself", connect());
}

TEST_F(test_loopback, a_nic_is_silent_if_an_answer_takes_too_long)
{
    const transfer one{verb::write, {0, 5, 0}, {0, 0, 6}, 1};
    const auto run = [&](int silent, bool *is_silent) {
        loopback over(nic_.pd());
        pass(std::chrono::seconds(10)); // not in a run
        nic_.silent_polls = silent;
        const bool good   = !over.run({&one, 1});
        *is_silent        = over.is_silent();
        return good;
    };
    bool is_silent = true;
    EXPECT_TRUE(run(1, &is_silent));
    EXPECT_FALSE(is_silent);
    EXPECT_FALSE(run(4, &is_silent));
    EXPECT_TRUE(is_silent);
    // Each answer is in time, but all together are not.
    {
        loopback over(nic_.pd());
        for (const bool good : {true, true, true, true, true, false}) {
            nic_.silent_polls = 1;
            EXPECT_EQ(good, !over.run({&one, 1}));
        }
    }
    // The machine stopped while the answer came.
    nic_.pause = std::chrono::seconds(10);
    EXPECT_TRUE(run(1, &is_silent));
    for (auto status : {IBV_WC_RETRY_EXC_ERR, IBV_WC_REM_ACCESS_ERR}) {
        nic_.transfer = [=](const ibv_send_wr &) { return status; };
        EXPECT_FALSE(run(0, &is_silent));
        EXPECT_EQ(status == IBV_WC_RETRY_EXC_ERR, is_silent);
    }
}

} // namespace
