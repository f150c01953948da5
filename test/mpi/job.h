// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "buffer.h"
#include <functional>
#include <memory>
#include <mpi.h>
#include <random>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf::test {

// From this size on nothing is staged with the plug-in (docs/comparison.md).
// UCX may copy smaller messages, with the plug-in or without.
constexpr size_t rendezvous = 64 << 10;
// By UCX's default (UCX_RNDV_SEND_NBR_THRESH) a blocking send from host memory
// is eager below this. If the receiver has GPU memory, it copies the message.
constexpr size_t rendezvous_of_host = 256 << 10;

// A test case's MPI job. All ranks run the same case.
class job {
public:
    int rank = 0;
    int size = 0;
    int tag  = 0; // of this job's messages
    // From this size on, blocking sends of the case stage nothing.
    size_t blocking = rendezvous;
    // Equal in all ranks, for choices on which they must agree.
    std::mt19937_64 random;

    // The neighbour with which a rank exchanges messages.
    int peer() const { return rank ^ 1; }
    // Rank 0 has the first kind of memory, the others the second.
    memory mine_of(memory first, memory second) const
    {
        return rank == 0 ? first : second;
    }

    // Returns the first number of the next messages, which all ranks count
    // alike.
    uint64_t next_number(uint64_t count = 1)
    {
        return std::exchange(number_, number_ + count);
    }

    // Records the first failure and goes on, as the other ranks wait for this
    // rank's messages.
    void expect(bool condition, const std::string &otherwise);
    void count_message(size_t length, bool right, const std::string &otherwise);
    // Expects the message at this address, and counts it.
    void expect_message(memory kind, const uint8_t *data, size_t length,
                        uint64_t number);
    void expect_message(const buffer &in, size_t offset, size_t length,
                        uint64_t number)
    {
        expect_message(in.kind(), in.at(offset), length, number);
    }
    // Runs a part of the case; a failure in it is told with this name.
    void run_part(const std::string &name, const std::function<void()> &part);

    // Sends a message between the first two ranks, in the memory that each
    // passes, and checks all bytes. UCX's copies of it are counted.
    void one_way(uint8_t *mine, memory kind, size_t length, int sender);
    // Sends a message from rank 0 to rank 1, and one back.
    void exchange(uint8_t *mine, memory kind, size_t length);

    // Returns a job for a thread, with message numbers and random numbers of
    // its own.
    job for_thread(int thread);
    // Adds the results of a thread's job.
    void join(const job &thread);

    // Adds the bytes that the GPU copies for UCX in this scope to `staged`,
    // unless the messages are blocking and small: UCX may copy those.
    class copies {
    public:
        explicit copies(job &counted_for, size_t length = SIZE_MAX);
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

// Memory that no message uses, and that must stay unchanged.
class bystanders {
public:
    explicit bystanders(job &in) : job_(in) {}

    void add(uint8_t *data, memory kind, size_t length);
    void expect_unchanged(const char *when) const;

private:
    struct one {
        uint8_t *data;
        memory kind;
        size_t length;
        uint64_t number;
    };

    job &job_;
    std::vector<one> all_;
};

// Calls that are compared move elements of this type.
inline constexpr size_t element = sizeof(uint64_t);
inline MPI_Datatype type()
{
    return MPI_UINT64_T;
}

// The buffers of a call in this rank, each of one kind of memory.
struct two_buffers {
    memory send;
    memory receive;
    size_t sent     = 0; // bytes that the call may read
    size_t received = 0; // bytes that it may write, or leave unchanged
    // The receive buffer is on the next GPU, not on the rank's own.
    bool apart = false;
};

using call_on = std::function<void(uint8_t *send, uint8_t *receive)>;

// Makes the call, which all ranks must make, with a pair of buffers in host
// memory, and with a pair in the given kinds. Both pairs have the same bytes,
// different in each rank. Expects equal bytes afterwards, also where none were
// written. `own`: bytes that the second call may have the GPU copy within this
// rank; further ones count as staged. Copies count only if `large` is set.
void compare_with_host(job &in, const two_buffers &with, const call_on &call,
                       bool large, size_t own = 0);

enum class staging {
    follows, // as the command line says
    never,   // no device memory is sent, or none of it is copied
    any,     // depends on UCX
};

// Kinds of memory that are tried in all pairs. UCX may move memory of both GPU
// and host by any means.
inline constexpr memory allocators[] = {memory::host,    memory::device,
                                        memory::pool,    memory::vmm,
                                        memory::managed, memory::pinned};
inline staging staging_between(memory first, memory second)
{
    const bool any = std::max(first, second) >= memory::managed;
    return any ? staging::any : staging::follows;
}

using case_function = std::function<void(job &, memory first, memory second)>;

struct test_case {
    std::string group;
    std::string name;
    case_function run;
    memory first     = memory::host;
    memory second    = memory::host;
    staging expected = staging::follows;
};

// All cases of the program.
class case_list {
public:
    case_list();
    // The name in the results has the kinds of memory, too.
    void add(const std::string &group, const std::string &name,
             const case_function &run, memory first, memory second,
             staging expected = staging::follows);
    void add(const std::string &group, const std::string &name,
             const case_function &run, memory kind = memory::device,
             staging expected = staging::follows);
    const std::vector<test_case> &all() const { return all_; }

private:
    std::vector<test_case> all_;
};

// Add the cases of each file.
void add_messages(case_list &cases);
void add_edges(case_list &cases);
void add_lifetime(case_list &cases);
void add_reuse(case_list &cases);
void add_storm(case_list &cases);
void add_collectives(case_list &cases);
void add_datatypes(case_list &cases);
void add_windows(case_list &cases);
void add_demo(case_list &cases);

} // namespace ucx_ib_dmabuf::test
