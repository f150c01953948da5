// SPDX-License-Identifier: BSD-3-Clause
//
// A proof finds the faults of a NIC, a platform or a driver, and reports no
// others.
#include "lying_queue_pair.h"
#include <algorithm>
#include <gtest/gtest.h>
#include <string>

using namespace prove_test;

namespace {

using access  = lying_wire::access;
using outcome = lying_wire::outcome;

void expect_refuted(bench &of, const std::string &because)
{
    const verdict found = of.prove();

    EXPECT_EQ(finding::refuted, found.what);
    EXPECT_NE(std::string::npos, std::string(found.why.c_str()).find(because))
        << found.why.c_str() << "\nis not: " << because;
}

TEST(test_proof, a_good_path_carries)
{
    bench good;

    EXPECT_EQ(finding::carries, good.prove().what);
    EXPECT_EQ(2u, good.nic.atomics) << "host memory's first";
    EXPECT_EQ(1u, good.connections);
    good.nic.atomic = false;
    EXPECT_EQ(finding::carries, good.prove().what);
    EXPECT_EQ(2u, good.nic.atomics);
}

TEST(test_proof, writes_that_vanish)
{
    for (const bool local : {false, true}) {
        bench of;
        of.nic.lie = [=](const access &it) {
            return (!it.is_read && it.is_local == local) ? outcome::dropped
                                                         : outcome::fine;
        };
        expect_refuted(of, local ? "an RDMA read into GPU memory: 1 bytes "
                                   "vanished"
                                 : "an RDMA write to GPU memory: 1 bytes "
                                   "vanished");
    }
}

TEST(test_proof, writes_of_one_size_that_vanish)
{
    for (const uint32_t length : {1, 64, 4095, 4096, 16384}) {
        bench of;
        of.nic.lie = [=](const access &it) {
            return (!it.is_read && it.length == length) ? outcome::dropped
                                                        : outcome::fine;
        };
        if (length == 1) { // the flush also reads one byte
            expect_refuted(of, "vanished");
        } else {
            expect_refuted(of, std::to_string(length) + " bytes vanished");
        }
    }
}

TEST(test_proof, writes_that_a_read_pushes_before_it_have_arrived)
{
    bench of;
    of.nic.late = true;
    EXPECT_EQ(finding::carries, of.prove().what);
    EXPECT_EQ(2u, of.nic.atomics);
}

// The proof does not judge the speed of a path.
TEST(test_proof, a_moment_later_is_early_enough)
{
    bench of;
    of.gpu.late = 2;
    EXPECT_EQ(finding::carries, of.prove().what);
    of.gpu.late = 3;
    EXPECT_EQ(finding::refuted, of.prove().what);
}

// Stale reads return the data of the proof's first round.
TEST(test_proof, reads_of_what_was_there_before)
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
    expect_refuted(of, "an RDMA read of GPU memory: ");
}

TEST(test_proof, reads_of_zeros_and_ones)
{
    for (const bool local : {false, true}) {
        for (const int value : {0, 0xff}) {
            bench of;
            of.nic.lie = [=](const access &it) {
                if (it.is_read && it.is_local == local) {
                    memset(it.bytes, value, it.length);
                }
                return outcome::fine;
            };
            expect_refuted(of,
                           std::string(local ? "an RDMA write from GPU memory"
                                             : "an RDMA read of GPU memory") +
                               ": 1 bytes arrived as " +
                               (value == 0 ? "0x00" : "0xff"));
        }
    }
}

TEST(test_proof, a_bit_that_flips)
{
    for (const bool read : {false, true}) {
        bench of;
        of.nic.lie = [=](const access &it) {
            if (it.is_read == read && it.length == 16384) {
                it.bytes[16383] ^= 0x10;
            }
            return outcome::fine;
        };
        expect_refuted(of, "1 of 16384 bytes are wrong, the first at 16383: ");
    }
}

TEST(test_proof, bytes_that_end_up_elsewhere)
{
    bench of;
    of.nic.lie = [&](const access &it) {
        if (!it.is_read) {
            reinterpret_cast<uint8_t *>(of.gpu.memory.data())[2000] = 0;
        }
        return outcome::fine;
    };
    expect_refuted(of, "bytes beside those that were sent changed, at 2000");
}

TEST(test_proof, errors_by_either_key)
{
    for (const bool local : {false, true}) {
        for (const bool read : {false, true}) {
            bench of;
            of.nic.lie = [=](const access &it) {
                return (it.is_local == local && it.is_read == read)
                           ? outcome::error
                           : outcome::fine;
            };
            expect_refuted(of, "remote access error");
        }
    }
}

TEST(test_proof, atomics_that_are_lost_or_fail)
{
    for (const outcome what : {outcome::dropped, outcome::error}) {
        bench of;
        of.nic.lie = [=](const access &it) {
            return (it.what == verb::fetch_add) ? what : outcome::fine;
        };
        expect_refuted(of, "an atomic addition to GPU memory");
        of.nic.atomic = false;
        EXPECT_EQ(finding::carries, of.prove().what);
    }
}

// These operations fail with host memory, too, so the path is not at fault.
TEST(test_proof, atomics_that_the_nic_has_not)
{
    bench of;
    of.nic.lies_of_host = true;
    of.nic.lie          = [=](const access &it) {
        return (it.what == verb::fetch_add) ? outcome::error : outcome::fine;
    };
    EXPECT_EQ(finding::carries, of.prove().what);
}

TEST(test_proof, what_fails_with_host_memory_too_is_no_fault_of_the_path)
{
    bench of;
    of.nic.lies_of_host = true;
    of.nic.lie          = [](const access &) { return outcome::error; };
    EXPECT_EQ(finding::unknown, of.prove().what);
    EXPECT_TRUE(of.prove().for_the_nic);

    of.nic.lie = [](const access &it) {
        return it.is_read ? outcome::fine : outcome::dropped;
    };
    EXPECT_EQ(finding::unknown, of.prove().what);
}

// The machine may have been stopped for a while.
TEST(test_proof, who_does_not_answer_is_asked_once_more)
{
    bench of;

    of.nic.silent = 1;
    EXPECT_EQ(finding::carries, of.prove().what);
    EXPECT_EQ(2u, of.connections);
    of.nic.silent = 2; // host memory gets an answer
    EXPECT_EQ(finding::refuted, of.prove().what);
    of.nic.silent = 3;
    EXPECT_EQ(finding::unknown, of.prove().what);
    EXPECT_EQ(0u, of.nic.silent);
}

TEST(test_proof, an_error_is_found_once_and_looked_at_with_host_memory)
{
    bench of;

    of.nic.lie = [](const access &) { return outcome::error; };
    EXPECT_EQ(finding::refuted, of.prove().what);
    EXPECT_EQ(2u, of.connections);
}

TEST(test_proof, without_a_wire_nothing_is_found_out)
{
    for (const unsigned ports : {0, 1}) { // none, or none for host memory
        bench of;
        of.ports            = ports;
        of.nic.lie          = [](const access &) { return outcome::error; };
        const verdict found = of.prove();
        EXPECT_EQ(finding::unknown, found.what);
        EXPECT_STREQ("there is none", found.why.c_str());
        EXPECT_FALSE(found.for_the_nic);
    }
}

TEST(test_proof, a_driver_that_does_not_copy_refutes_nothing)
{
    bench of;
    of.gpu.fails = true;
    EXPECT_EQ(finding::unknown, of.prove().what);
    EXPECT_FALSE(of.prove().for_the_nic);
}

} // namespace
