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

// From this size on UCX is told to use its rendezvous (test/mpi/functions.sh);
// smaller messages are copied by UCX, with the plug-in or without.
constexpr size_t rendezvous = 64 << 10;

// What a test case runs in: the ranks of the job, all in the same case.
class job {
public:
    int rank = 0;
    int size = 0;
    int tag  = 0; // of this job's messages
    // The same in all ranks: what they have to agree on is drawn from it.
    std::mt19937_64 random;

    // The number of the next message, if all ranks count them together.
    uint64_t next_number() { return number_++; }

    // A failure ends nothing: the other ranks wait for this one's messages.
    // The first one is kept.
    void expect(bool condition, const std::string &otherwise);
    // The message, in that part of the buffer.
    void expect_message(const buffer &in, size_t offset, size_t length,
                        uint64_t number)
    {
        expect_message(in.kind(), in.at(offset), length, number);
    }
    // The message, at that address. It is counted.
    void expect_message(memory kind, const uint8_t *data, size_t length,
                        uint64_t number);

    // For a thread of its own: it has other messages, which nobody else counts,
    // and draws other numbers.
    job for_thread(int thread);
    // Takes over what the thread found.
    void join(const job &thread);

    // Bytes that UCX has the GPU copy in this block add up to `staged`, unless
    // its messages are small: what UCX copies of those is its own affair.
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
    uint64_t staged = 0; // in this rank, in blocks of copies

    // What was looked at in this rank, over all cases.
    struct {
        uint64_t messages = 0;
        uint64_t bytes    = 0;
        uint64_t wrong    = 0; // messages
    } checked;

private:
    uint64_t number_ = 1;
};

enum class staging {
    follows, // what the command line says of every case
    never,   // no messages of device memory, or none that is copied
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

// The cases of each file.
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
