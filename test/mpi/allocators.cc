// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of every allocator, in all pairs: each rank sends from one kind and
// receives into the other. For an MPI that is built with CUDA.
#include "collective.h"
#include "compared.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr int count = 20011; // elements of each part: enough for a rendezvous
constexpr size_t length = size_t{count} * element;

constexpr memory all_kinds[] = {memory::host, memory::device,  memory::pool,
                                memory::vmm,  memory::managed, memory::pinned};

int peer_of(const job &in)
{
    return in.rank ^ 1;
}

void exchange(const job &in, uint8_t *send, uint8_t *receive)
{
    MPI_Sendrecv(send, count, type(), peer_of(in), 0, receive, count, type(),
                 peer_of(in), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void all_to_all(const job &, uint8_t *send, uint8_t *receive)
{
    MPI_Alltoall(send, count, type(), receive, count, type(), MPI_COMM_WORLD);
}

void reduce(const job &, uint8_t *send, uint8_t *receive)
{
    MPI_Allreduce(send, receive, count, type(), MPI_SUM, MPI_COMM_WORLD);
}

const struct {
    const char *name;
    bool moves; // it neither computes nor packs
    int own;    // copies of the rank's own part that the call may make
    void (*run)(const job &, uint8_t *send, uint8_t *receive);
} calls[] = {
    {"MPI_Sendrecv", true, 0, exchange},
    {"MPI_Alltoall", true, 1, all_to_all},
    {"MPI_Allreduce", false, 0, reduce},
};

void run_calls(job &in, memory first, memory second)
{
    two_buffers with = crossed_kinds(first, second);

    with.sent = with.received = length * static_cast<size_t>(in.size);
    for (const auto &one : calls) {
        const std::string before = in.failure;
        compare_with_host(
            in, with,
            [&](uint8_t *send, uint8_t *receive) {
                one.run(in, send, receive);
            },
            one.moves, length * static_cast<size_t>(one.own));
        if (before.empty() && !in.failure.empty()) {
            in.failure = one.name + (": " + in.failure);
        }
    }
}

// Puts and gets in a window over the second kind of memory.
void run_window(job &in, memory first, memory second)
{
    two_buffers with = crossed_kinds(first, second);

    with.sent = with.received = 2 * length;
    compare_with_host(
        in, with,
        [&](uint8_t *mine, uint8_t *receive) {
            MPI_Win window;
            MPI_Win_create(receive, 2 * length, 1, MPI_INFO_NULL,
                           MPI_COMM_WORLD, &window);
            MPI_Win_fence(0, window);
            MPI_Put(mine, count, type(), peer_of(in), 0, count, type(), window);
            MPI_Get(mine + length, count, type(), peer_of(in), length, count,
                    type(), window);
            MPI_Win_fence(0, window);
            MPI_Win_free(&window);
        },
        true);
}

// UCX may move memory of both GPU and host by any means.
bool is_both(memory kind)
{
    return kind == memory::managed || kind == memory::pinned;
}

} // namespace

void add_allocators(std::vector<test_case> *cases)
{
    for (memory first : all_kinds) {
        for (memory second : all_kinds) {
            const bool may_copy    = is_both(first) || is_both(second);
            const staging expected = may_copy ? staging::any : staging::follows;
            const std::string pair = std::string(name_of(first)) + " to " +
                                     name_of(second) + " memory";
            cases->push_back({"allocators", "calls from " + pair, run_calls,
                              first, second, expected});
            // A separate group, as no NIC registers managed memory.
            cases->push_back({second == memory::managed ? "window-managed"
                                                        : "window-allocators",
                              "a window, " + pair, run_window, first, second,
                              expected});
        }
    }
}

} // namespace ucx_ib_dmabuf::test
