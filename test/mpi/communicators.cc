// SPDX-License-Identifier: BSD-3-Clause
//
// Many communicators at once: copies of one, parts of one, two that face each
// other.
#include "compared.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr int copies_of_world = 24;
constexpr int length          = 80021;

// The same tag in each: what is sent in one arrives in that one.
void run_copies(job &in, memory first, memory second)
{
    std::vector<MPI_Comm> all(copies_of_world);
    two_buffers with = same_kinds(in, first, second);

    for (MPI_Comm &one : all) {
        MPI_Comm_dup(MPI_COMM_WORLD, &one);
    }
    with.sent = with.received = size_t{length} * copies_of_world;
    compare_with_host(
        in, with,
        [&](uint8_t *send, uint8_t *receive) {
            std::vector<MPI_Request> requests(2 * copies_of_world);
            for (int i = 0; i < copies_of_world; ++i) {
                const auto place = static_cast<size_t>(i);
                // The receives in another order than the sends.
                const size_t other = copies_of_world - 1 - place;
                MPI_Irecv(receive + other * length, length, MPI_BYTE,
                          (in.rank + 1) % in.size, 0, all[other],
                          &requests[2 * place]);
                MPI_Isend(send + place * length, length, MPI_BYTE,
                          (in.rank + in.size - 1) % in.size, 0, all[place],
                          &requests[2 * place + 1]);
            }
            MPI_Waitall(2 * copies_of_world, requests.data(),
                        MPI_STATUSES_IGNORE);
        },
        true);
    for (MPI_Comm &one : all) {
        MPI_Comm_free(&one);
    }
}

// Even and odd ranks apart, in the opposite order.
void run_parts(job &in, memory first, memory second)
{
    MPI_Comm part    = MPI_COMM_NULL;
    two_buffers with = same_kinds(in, first, second);
    int ranks        = 0;

    MPI_Comm_split(MPI_COMM_WORLD, in.rank % 2, -in.rank, &part);
    MPI_Comm_size(part, &ranks);
    with.sent     = length;
    with.received = static_cast<size_t>(length) * static_cast<size_t>(ranks);
    compare_with_host(
        in, with,
        [&](uint8_t *send, uint8_t *receive) {
            MPI_Bcast(send, length, MPI_BYTE, ranks - 1, part);
            MPI_Allgather(send, length, MPI_BYTE, receive, length, MPI_BYTE,
                          part);
        },
        true, length);
    MPI_Comm_free(&part);
}

// All of one side to all of the other.
void run_facing(job &in, memory first, memory second)
{
    MPI_Comm part = MPI_COMM_NULL, both = MPI_COMM_NULL;
    two_buffers with = same_kinds(in, first, second);
    int others       = 0;

    MPI_Comm_split(MPI_COMM_WORLD, in.rank % 2, in.rank, &part);
    MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, 1 - in.rank % 2, 7, &both);
    MPI_Comm_remote_size(both, &others);
    with.sent = with.received =
        static_cast<size_t>(length) * static_cast<size_t>(others);
    compare_with_host(
        in, with,
        [&](uint8_t *send, uint8_t *receive) {
            MPI_Allgather(send, length, MPI_BYTE, receive, length, MPI_BYTE,
                          both);
            MPI_Alltoall(send, length, MPI_BYTE, receive, length, MPI_BYTE,
                         both);
        },
        false);
    MPI_Comm_free(&both);
    MPI_Comm_free(&part);
}

} // namespace

void add_communicators(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const auto add = [cases](memory first, memory second) {
        const std::string kinds =
            std::string(": ") + name_of(first) + ", " + name_of(second);
        cases->push_back({"communicators", "24 copies of one" + kinds,
                          run_copies, first, second, staging::follows});
        cases->push_back({"communicators", "two parts of one" + kinds,
                          run_parts, first, second, staging::follows});
        cases->push_back({"communicators", "two that face each other" + kinds,
                          run_facing, first, second, staging::follows});
    };

    add(device, device);
    add(host, device);
}

} // namespace ucx_ib_dmabuf::test
