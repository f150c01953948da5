// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "buffer.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf::test {

// UCX is set to use rendezvous from this size on (test/mpi/functions.sh). It
// copies smaller messages, with the plug-in or without.
constexpr size_t rendezvous = 64 << 10;

// A test case's MPI job. All ranks run the same case.
class job {
public:
    int rank = 0;
    int size = 0;
    int tag  = 0; // of this job's messages
    // Equal in all ranks, for choices on which they must agree.
    std::mt19937_64 random;

    // Returns the number of the next message, which all ranks count alike.
    uint64_t next_number() { return number_++; }

    // Records the first failure and goes on, as the other ranks wait for this
    // rank's messages.
    void expect(bool condition, const std::string &otherwise);
    // Expects the message in this part of the buffer.
    void expect_message(const buffer &in, size_t offset, size_t length,
                        uint64_t number)
    {
        expect_message(in.kind(), in.at(offset), length, number);
    }
    // Expects the message at this address, and counts it.
    void expect_message(memory kind, const uint8_t *data, size_t length,
                        uint64_t number);

    // Returns a job for a thread, with message numbers and random numbers of
    // its own.
    job for_thread(int thread);
    // Adds the results of a thread's job.
    void join(const job &thread);

    // Adds the bytes that the GPU copies for UCX in this scope to `staged`,
    // unless the messages are small: UCX may copy those.
    class copies {
    public:
        explicit copies(job &counted_for, size_t length = rendezvous);
        ~copies();
        copies(const copies &)            = delete;
        copies &operator=(const copies &) = delete;

    private:
        job &job_;
        const bool large_;
        const uint64_t before_;
    };

    std::string failure; // in this rank
    uint64_t staged = 0; // in this rank, in scopes of `copies`

    // Messages checked in this rank, over all cases.
    struct {
        uint64_t messages = 0;
        uint64_t bytes    = 0;
        uint64_t wrong    = 0; // messages
    } checked;

private:
    uint64_t number_ = 1;
};

enum class staging {
    follows, // as the command line says
    never,   // no device memory is sent, or none of it is copied
    any,     // depends on UCX
};

struct test_case {
    std::string group;
    std::string name;
    std::function<void(job &, memory, memory)> run;
    memory first     = memory::host;
    memory second    = memory::host;
    staging expected = staging::follows;
};

// Add the cases of each file.
void add_messages(std::vector<test_case> *cases);
void add_patterns(std::vector<test_case> *cases);
void add_collectives(std::vector<test_case> *cases);
void add_reuse(std::vector<test_case> *cases);
void add_devices(std::vector<test_case> *cases);
void add_edges(std::vector<test_case> *cases);
void add_storm(std::vector<test_case> *cases);
void add_lifetime(std::vector<test_case> *cases);
void add_pinned(std::vector<test_case> *cases);
void add_datatypes(std::vector<test_case> *cases);
void add_allocators(std::vector<test_case> *cases);
void add_windows(std::vector<test_case> *cases);

} // namespace ucx_ib_dmabuf::test
