// SPDX-License-Identifier: BSD-3-Clause
//
// A check finds the faults of a NIC, a platform or a driver, and reports no
// others.
#include "fake_nic.h"
#include "path_gpu.h"
#include <algorithm>
#include <common/fds.h>
#include <string>

using namespace path_test;

namespace {

using access  = lying_nic::access;
using outcome = lying_nic::outcome;

// A NIC and a GPU, of which the NIC registers a probe.
struct bench {
    path_gpu gpu;
    lying_nic nic;
    fake_importer by;
    std::vector<uint64_t> memory = std::vector<uint64_t>(check_size / 8);

    check_result check(bool in_probe = true)
    {
        const registered_buffer probe{
            reinterpret_cast<uintptr_t>(memory.data()), gpu_key,
            remote(gpu_key)};
        return check_path(nic.pd(), gpu, 0, reg_method::standard, by,
                          in_probe ? &probe : nullptr);
    }
    path_state state() { return check().state; }
    void expect_broken(const std::string &because)
    {
        const check_result found = check();

        EXPECT_EQ(path_state::broken, found.state);
        EXPECT_NE(std::string::npos,
                  std::string(found.why.c_str()).find(because))
            << found.why.c_str() << "\nis not: " << because;
    }
};

outcome fail_all(const access &)
{
    return outcome::error;
}

TEST(test_path_check, a_good_path_is_proven)
{
    bench good;

    EXPECT_EQ(path_state::proven, good.state());
    EXPECT_EQ(2u, good.nic.added) << "host memory's first";
    EXPECT_EQ(1u, good.nic.connected);
    good.nic.atomics = false;
    EXPECT_EQ(path_state::proven, good.state());
    EXPECT_EQ(2u, good.nic.added);
}

// A table of NICs and messages. Each lie is told of each access.
TEST(test_path_check, faults_are_found_and_named)
{
    const auto drops = [](bool local) {
        return [=](const access &it) {
            return (!it.is_read && it.is_local == local) ? outcome::dropped
                                                         : outcome::fine;
        };
    };
    const auto reads_as = [](bool local, int value) {
        return [=](const access &it) {
            if (it.is_read && it.is_local == local) {
                memset(it.bytes, value, it.length);
            }
            return outcome::fine;
        };
    };
    const auto flips = [](bool read) {
        return [=](const access &it) {
            if (it.is_read == read && it.length == 16384) {
                it.bytes[16383] ^= 0x10;
            }
            return outcome::fine;
        };
    };
    const auto fails = [](bool local, bool read) {
        return [=](const access &it) {
            return (it.is_local == local && it.is_read == read) ? outcome::error
                                                                : outcome::fine;
        };
    };
    const char flipped[] = "1 of 16384 bytes are wrong, the first at 16383: ";
    const struct {
        std::function<outcome(const access &)> lie;
        const char *because;
    } all[] = {
        {drops(false), "an RDMA write to GPU memory: 1 bytes vanished"},
        {drops(true), "an RDMA read into GPU memory: 1 bytes vanished"},
        {reads_as(false, 0), "an RDMA read of GPU memory: 1 bytes arrived as "
                             "0x00"},
        {reads_as(false, 0xff), "an RDMA read of GPU memory: 1 bytes arrived "
                                "as 0xff"},
        {reads_as(true, 0), "an RDMA write from GPU memory: 1 bytes arrived as "
                            "0x00"},
        {reads_as(true, 0xff), "an RDMA write from GPU memory: 1 bytes arrived "
                               "as 0xff"},
        {flips(false), flipped},
        {flips(true), flipped},
        {fails(false, false), "remote access error"},
        {fails(false, true), "remote access error"},
        {fails(true, false), "remote access error"},
        {fails(true, true), "remote access error"},
    };
    for (const auto &[lie, because] : all) {
        bench of;
        of.nic.lie = lie;
        of.expect_broken(because);
    }
}

TEST(test_path_check, writes_of_one_size_that_vanish)
{
    for (const uint32_t length : {1, 64, 4095, 4096, 16384}) {
        bench of;
        of.nic.lie = [=](const access &it) {
            return (!it.is_read && it.length == length) ? outcome::dropped
                                                        : outcome::fine;
        };
        // The flush also reads one byte.
        of.expect_broken(
            ((length == 1) ? "" : std::to_string(length) + " bytes ") +
            "vanished");
    }
}

TEST(test_path_check, writes_that_a_read_pushes_before_it_have_arrived)
{
    bench of;
    of.nic.late = true;
    EXPECT_EQ(path_state::proven, of.state());
    EXPECT_EQ(2u, of.nic.added);
}

// The check does not judge the speed of a path.
TEST(test_path_check, a_moment_later_is_early_enough)
{
    bench of;
    of.gpu.late = 2;
    EXPECT_EQ(path_state::proven, of.state());
    of.gpu.late = 3;
    EXPECT_EQ(path_state::broken, of.state());
}

// Stale reads return the data of the check's first round.
TEST(test_path_check, reads_of_what_was_there_before)
{
    bench of;
    std::vector<std::vector<uint8_t>> first;
    size_t next = 0;
    of.nic.lie  = [&](const access &it) {
        if (first.size() < 8) { // seven writes, and the read behind them
            first.emplace_back(it.bytes, it.bytes + it.length);
        } else if (it.is_read && !it.is_local && next < 7) {
            std::copy_n(first[next++].begin(), it.length, it.bytes);
        }
        return outcome::fine;
    };
    of.expect_broken("an RDMA read of GPU memory: ");
}

// On the way to the GPU's memory, or from it.
TEST(test_path_check, bits_that_are_stuck)
{
    for (const bool is_read : {true, false}) {
        for (int bit = 0; bit < 8; ++bit) {
            for (const uint8_t value : {0, 0xff}) {
                const auto stuck = static_cast<uint8_t>(1 << bit);
                bench of;
                of.nic.atomics = false;
                of.nic.lie     = [&](const access &it) {
                    for (uint32_t i = 0; it.is_read == is_read && i < it.length;
                         ++i) {
                        it.bytes[i] ^= (it.bytes[i] ^ value) & stuck;
                    }
                    return outcome::fine;
                };
                EXPECT_EQ(path_state::broken, of.state()) << bit;
            }
        }
    }
}

TEST(test_path_check, bytes_that_end_up_elsewhere)
{
    bench of;
    of.nic.lie = [&](const access &it) {
        if (!it.is_read) {
            reinterpret_cast<uint8_t *>(of.memory.data())[2000] = 0;
        }
        return outcome::fine;
    };
    of.expect_broken("bytes beside those that were sent changed, at 2000");
}

TEST(test_path_check, atomics_that_are_lost_or_fail)
{
    for (const outcome what : {outcome::dropped, outcome::error}) {
        bench of;
        of.nic.lie = [=](const access &it) {
            return (it.what == IBV_WR_ATOMIC_FETCH_AND_ADD) ? what
                                                            : outcome::fine;
        };
        of.expect_broken("an atomic addition to GPU memory");
        of.nic.atomics = false;
        EXPECT_EQ(path_state::proven, of.state());
    }
}

// These operations fail with host memory, too, so the path is not at fault.
TEST(test_path_check, atomics_that_the_nic_has_not)
{
    bench of;
    of.nic.lies_of_host = true;
    of.nic.lie          = [=](const access &it) {
        return (it.what == IBV_WR_ATOMIC_FETCH_AND_ADD) ? outcome::error
                                                                 : outcome::fine;
    };
    EXPECT_EQ(path_state::proven, of.state());
}

TEST(test_path_check, what_fails_with_host_memory_too_is_no_fault_of_the_path)
{
    bench of;
    of.nic.lies_of_host = true;
    of.nic.lie          = fail_all;
    EXPECT_EQ(path_state::untested, of.state());
    EXPECT_TRUE(of.check().for_the_nic);

    of.nic.lie = [](const access &it) {
        return it.is_read ? outcome::fine : outcome::dropped;
    };
    EXPECT_EQ(path_state::untested, of.state());
}

// The machine may have been stopped for a while.
TEST(test_path_check, a_nic_that_does_not_answer_is_asked_once_more)
{
    bench of;

    of.nic.silent = 1;
    EXPECT_EQ(path_state::proven, of.state());
    EXPECT_EQ(2u, of.nic.connected);
    of.nic.silent = 2; // host memory gets an answer
    EXPECT_EQ(path_state::broken, of.state());
    of.nic.silent = 3;
    EXPECT_EQ(path_state::untested, of.state());
    EXPECT_EQ(0u, of.nic.silent);
}

TEST(test_path_check, an_error_is_found_once_and_looked_at_with_host_memory)
{
    bench of;

    of.nic.lie = fail_all;
    EXPECT_EQ(path_state::broken, of.state());
    EXPECT_EQ(2u, of.nic.connected);
}

TEST(test_path_check, without_a_connection_nothing_is_found_out)
{
    for (const unsigned connections : {0, 1}) { // the second: for host memory
        bench of;
        of.nic.connections       = connections;
        of.nic.lie               = fail_all;
        const check_result found = of.check(false);
        EXPECT_EQ(path_state::untested, found.state);
        EXPECT_STREQ("it gives no queue pairs to try", found.why.c_str());
        EXPECT_FALSE(found.for_the_nic);
    }
}

TEST(test_path_check, a_driver_that_does_not_copy_breaks_no_path)
{
    bench of;
    of.gpu.copies_fail = true;
    EXPECT_EQ(path_state::untested, of.state());
    EXPECT_FALSE(of.check().for_the_nic);
}

TEST(test_path_check, without_a_probe_it_registers_the_pages_that_it_needs)
{
    bench of;
    const int fds = count_fds();

    EXPECT_EQ(path_state::proven, of.check(false).state);
    EXPECT_EQ(1u, of.gpu.allocated);
    EXPECT_EQ(check_size, of.by.length);
    EXPECT_EQ(check_size, of.gpu.exported);
    EXPECT_EQ(path_state::proven, of.state());
    EXPECT_EQ(1u, of.gpu.allocated) << "the probe is its memory";
    EXPECT_EQ(1u, of.by.asked);

    for (const size_t page : {16 << 10, 64 << 10}) { // kernels for arm64
        of.gpu.page = page;
        EXPECT_EQ(path_state::proven, of.check(false).state);
        EXPECT_EQ(size_t{64 << 10}, of.by.length);
        EXPECT_EQ(of.by.length, of.gpu.exported);
    }

    of.by.error = [] { return ENOMEM; };
    EXPECT_STREQ("memory to try cannot be registered",
                 of.check(false).why.c_str());
    of.gpu.in_use = {false};
    EXPECT_STREQ("the GPU has no memory to try", of.check(false).why.c_str());
    EXPECT_EQ(0, of.gpu.live);
    EXPECT_EQ(0, of.by.live);
    EXPECT_EQ(fds, count_fds());
}

} // namespace
