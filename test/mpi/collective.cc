// SPDX-License-Identifier: BSD-3-Clause
#include "collective.h"
#include <mpi.h>

// Both forms of MPI_NAME, and their arguments.
#define COLLECTIVE(NAME, LOWER, ROOTED, EQUAL, OWN, PLACE, ...)                \
    {                                                                          \
        {"MPI_" #NAME, "MPI_I" #LOWER}, ROOTED, EQUAL, OWN, place::PLACE,      \
        {                                                                      \
            [](const call &c) { MPI_##NAME(__VA_ARGS__); },                    \
                [](const call &c) { MPI_I##LOWER(__VA_ARGS__, c.request); }    \
        }                                                                      \
    }
// Arguments that several calls share.
#define EQUAL_PARTS c.send, c.p.count, type(), c.receive, c.p.count, type()
#define GATHERED_PARTS                                                         \
    c.send, c.mine(), type(), c.receive, c.p.counts.data(),                    \
        c.p.offsets.data(), type()
#define ALL_PARTS                                                              \
    c.send, c.p.counts.data(), c.p.offsets.data(), type(), c.receive,          \
        c.p.counts.data(), c.p.offsets.data(), type()
#define REDUCED(count) c.send, c.receive, count, type(), c.op

namespace ucx_ib_dmabuf::test {

parts::parts(int ranks, int first, int growth) : count(first)
{
    for (int i = 0; i < ranks; ++i) {
        const int mine = count + i * growth;
        counts.push_back(mine);
        offsets.push_back(total);
        byte_counts.push_back(mine * static_cast<int>(element));
        byte_offsets.push_back(total * static_cast<int>(element));
        types.push_back(MPI_BYTE);
        total += mine;
    }
}

void parts::drop(int rank)
{
    counts[static_cast<size_t>(rank)]      = 0;
    byte_counts[static_cast<size_t>(rank)] = 0;
}

std::span<const collective> gathers()
{
    static const collective all[] = {
        COLLECTIVE(Bcast, bcast, true, true, 0, nowhere, c.receive, c.p.count,
                   type(), c.root, MPI_COMM_WORLD),
        COLLECTIVE(Gather, gather, true, true, 1, root_sends, EQUAL_PARTS,
                   c.root, MPI_COMM_WORLD),
        COLLECTIVE(Gatherv, gatherv, true, false, 1, root_sends, GATHERED_PARTS,
                   c.root, MPI_COMM_WORLD),
        COLLECTIVE(Scatter, scatter, true, true, 1, root_receives, EQUAL_PARTS,
                   c.root, MPI_COMM_WORLD),
        COLLECTIVE(Scatterv, scatterv, true, false, 1, root_receives, c.send,
                   c.p.counts.data(), c.p.offsets.data(), type(), c.receive,
                   c.mine(), type(), c.root, MPI_COMM_WORLD),
        COLLECTIVE(Allgather, allgather, false, true, 1, all_send, EQUAL_PARTS,
                   MPI_COMM_WORLD),
        COLLECTIVE(Allgatherv, allgatherv, false, false, 1, all_send,
                   GATHERED_PARTS, MPI_COMM_WORLD),
    };
    return all;
}

std::span<const collective> exchanges()
{
    static const collective all[] = {
        COLLECTIVE(Alltoall, alltoall, false, true, 1, all_send, EQUAL_PARTS,
                   MPI_COMM_WORLD),
        COLLECTIVE(Alltoallv, alltoallv, false, true, 1, all_send, ALL_PARTS,
                   MPI_COMM_WORLD),
        COLLECTIVE(Alltoallw, alltoallw, false, true, 1, all_send, c.send,
                   c.p.byte_counts.data(), c.p.byte_offsets.data(),
                   c.p.types.data(), c.receive, c.p.byte_counts.data(),
                   c.p.byte_offsets.data(), c.p.types.data(), MPI_COMM_WORLD),
    };
    return all;
}

// In place, Open MPI 4.1's MPI_Reduce_scatter_block copies one part to the host
// but reduces all of them.
std::span<const collective> reductions()
{
    static const collective all[] = {
        COLLECTIVE(Reduce, reduce, true, true, 0, root_sends,
                   REDUCED(c.p.count), c.root, MPI_COMM_WORLD),
        COLLECTIVE(Allreduce, allreduce, false, true, 0, all_send,
                   REDUCED(c.p.count), MPI_COMM_WORLD),
        COLLECTIVE(Reduce_scatter, reduce_scatter, false, true, 0, all_send,
                   REDUCED(c.p.counts.data()), MPI_COMM_WORLD),
        COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, false, true, 0,
                   nowhere, REDUCED(c.p.count), MPI_COMM_WORLD),
        COLLECTIVE(Scan, scan, false, true, 0, all_send, REDUCED(c.p.count),
                   MPI_COMM_WORLD),
        COLLECTIVE(Exscan, exscan, false, true, 0, all_send, REDUCED(c.p.count),
                   MPI_COMM_WORLD),
    };
    return all;
}

call put_in_place(const collective &one, call with)
{
    const bool is_root = with.me == with.root;

    if ((one.in_place == place::all_send) ||
        ((one.in_place == place::root_sends) && is_root)) {
        with.send = MPI_IN_PLACE;
    } else if ((one.in_place == place::root_receives) && is_root) {
        with.receive = MPI_IN_PLACE;
    }
    return with;
}

void make(const collective &one, form as, call with)
{
    MPI_Request request = MPI_REQUEST_NULL;

    with.request = &request;
    one.run[as](with);
    // NOLINTNEXTLINE(*MPI-Checker): it does not know the calls in the table
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

} // namespace ucx_ib_dmabuf::test
