// SPDX-License-Identifier: BSD-3-Clause
//
// Every collective that moves data, blocking and not, each rank's own part
// included: for an MPI that is built with CUDA.
#include "collective.h"
#include "compared.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {

parts lay_out(int ranks, int count, int growth)
{
    parts all;

    all.count = count;
    for (int i = 0; i < ranks; ++i) {
        const int mine = count + i * growth;
        all.counts.push_back(mine);
        all.offsets.push_back(all.total);
        all.byte_counts.push_back(mine * static_cast<int>(element));
        all.byte_offsets.push_back(all.total * static_cast<int>(element));
        all.types.push_back(MPI_BYTE);
        all.total += mine;
    }
    return all;
}

namespace {

const collective blocking[] = {
    {"MPI_Bcast", true, true, 0,
     [](const call &c) {
         MPI_Bcast(c.receive, c.p.total, type(), c.root, c.comm);
     }},
    {"MPI_Gather", true, true, 1,
     [](const call &c) {
         MPI_Gather(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                    c.root, c.comm);
     }},
    {"MPI_Gatherv", true, false, 1,
     [](const call &c) {
         MPI_Gatherv(c.send, c.mine(), type(), c.receive, c.p.counts.data(),
                     c.p.offsets.data(), type(), c.root, c.comm);
     }},
    {"MPI_Scatter", true, true, 1,
     [](const call &c) {
         MPI_Scatter(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                     c.root, c.comm);
     }},
    {"MPI_Scatterv", true, false, 1,
     [](const call &c) {
         MPI_Scatterv(c.send, c.p.counts.data(), c.p.offsets.data(), type(),
                      c.receive, c.mine(), type(), c.root, c.comm);
     }},
    {"MPI_Allgather", false, true, 1,
     [](const call &c) {
         MPI_Allgather(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                       c.comm);
     }},
    {"MPI_Allgatherv", false, false, 1,
     [](const call &c) {
         MPI_Allgatherv(c.send, c.mine(), type(), c.receive, c.p.counts.data(),
                        c.p.offsets.data(), type(), c.comm);
     }},
    {"MPI_Alltoall", false, true, 1,
     [](const call &c) {
         MPI_Alltoall(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                      c.comm);
     }},
    {"MPI_Alltoallv", false, true, 1,
     [](const call &c) {
         MPI_Alltoallv(c.send, c.p.counts.data(), c.p.offsets.data(), type(),
                       c.receive, c.p.counts.data(), c.p.offsets.data(), type(),
                       c.comm);
     }},
    {"MPI_Alltoallw", false, true, 1,
     [](const call &c) {
         MPI_Alltoallw(c.send, c.p.byte_counts.data(), c.p.byte_offsets.data(),
                       c.p.types.data(), c.receive, c.p.byte_counts.data(),
                       c.p.byte_offsets.data(), c.p.types.data(), c.comm);
     }},
};

// Open MPI's non-blocking ones pack and unpack the own part, through host
// memory.
const collective nonblocking[] = {
    {"MPI_Ibcast", true, true, 0,
     [](const call &c) {
         MPI_Ibcast(c.receive, c.p.total, type(), c.root, c.comm, c.request);
     }},
    {"MPI_Igather", true, true, 2,
     [](const call &c) {
         MPI_Igather(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                     c.root, c.comm, c.request);
     }},
    {"MPI_Igatherv", true, false, 2,
     [](const call &c) {
         MPI_Igatherv(c.send, c.mine(), type(), c.receive, c.p.counts.data(),
                      c.p.offsets.data(), type(), c.root, c.comm, c.request);
     }},
    {"MPI_Iscatter", true, true, 2,
     [](const call &c) {
         MPI_Iscatter(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                      c.root, c.comm, c.request);
     }},
    {"MPI_Iscatterv", true, false, 2,
     [](const call &c) {
         MPI_Iscatterv(c.send, c.p.counts.data(), c.p.offsets.data(), type(),
                       c.receive, c.mine(), type(), c.root, c.comm, c.request);
     }},
    {"MPI_Iallgather", false, true, 2,
     [](const call &c) {
         MPI_Iallgather(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                        c.comm, c.request);
     }},
    {"MPI_Iallgatherv", false, false, 2,
     [](const call &c) {
         MPI_Iallgatherv(c.send, c.mine(), type(), c.receive, c.p.counts.data(),
                         c.p.offsets.data(), type(), c.comm, c.request);
     }},
    {"MPI_Ialltoall", false, true, 2,
     [](const call &c) {
         MPI_Ialltoall(c.send, c.p.count, type(), c.receive, c.p.count, type(),
                       c.comm, c.request);
     }},
    {"MPI_Ialltoallv", false, true, 2,
     [](const call &c) {
         MPI_Ialltoallv(c.send, c.p.counts.data(), c.p.offsets.data(), type(),
                        c.receive, c.p.counts.data(), c.p.offsets.data(),
                        type(), c.comm, c.request);
     }},
    {"MPI_Ialltoallw", false, true, 2,
     [](const call &c) {
         MPI_Ialltoallw(c.send, c.p.byte_counts.data(), c.p.byte_offsets.data(),
                        c.p.types.data(), c.receive, c.p.byte_counts.data(),
                        c.p.byte_offsets.data(), c.p.types.data(), c.comm,
                        c.request);
     }},
};

// In a ring, so everyone has two neighbours, who may be the same.
const collective neighbours[] = {
    {"MPI_Neighbor_allgather", false, true, 0,
     [](const call &c) {
         MPI_Neighbor_allgather(c.send, c.p.count, type(), c.receive, c.p.count,
                                type(), c.comm);
     }},
    {"MPI_Neighbor_allgatherv", false, true, 0,
     [](const call &c) {
         MPI_Neighbor_allgatherv(c.send, c.p.count, type(), c.receive,
                                 c.p.counts.data(), c.p.offsets.data(), type(),
                                 c.comm);
     }},
    {"MPI_Neighbor_alltoall", false, true, 0,
     [](const call &c) {
         MPI_Neighbor_alltoall(c.send, c.p.count, type(), c.receive, c.p.count,
                               type(), c.comm);
     }},
    {"MPI_Neighbor_alltoallv", false, true, 0,
     [](const call &c) {
         MPI_Neighbor_alltoallv(c.send, c.p.counts.data(), c.p.offsets.data(),
                                type(), c.receive, c.p.counts.data(),
                                c.p.offsets.data(), type(), c.comm);
     }},
    {"MPI_Ineighbor_allgather", false, true, 0,
     [](const call &c) {
         MPI_Ineighbor_allgather(c.send, c.p.count, type(), c.receive,
                                 c.p.count, type(), c.comm, c.request);
     }},
    {"MPI_Ineighbor_alltoall", false, true, 0,
     [](const call &c) {
         MPI_Ineighbor_alltoall(c.send, c.p.count, type(), c.receive, c.p.count,
                                type(), c.comm, c.request);
     }},
};

void run_one(job &in, const collective &one, two_buffers with, MPI_Comm comm,
             int count)
{
    const parts p    = lay_out(in.size, count, one.equal ? 0 : 1001);
    const bool large = static_cast<size_t>(count) * element >= rendezvous;

    with.sent = with.received = static_cast<size_t>(p.total) * element;
    for (int root = 0; root < (one.rooted ? in.size : 1); ++root) {
        const auto run = [&](uint8_t *send, uint8_t *receive) {
            MPI_Request request = MPI_REQUEST_NULL;
            one.run({p, root, in.rank, comm, send, receive, &request});
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        };
        const auto mine =
            static_cast<size_t>(p.counts[static_cast<size_t>(in.rank)]);
        compare_with_host(in, with, run, large,
                          mine * element * static_cast<size_t>(one.own));
    }
}

// The smaller ones go other ways: in Open MPI, and in UCX.
constexpr std::initializer_list<int> all_counts = {1, 5, 1000, 40009};

template <const auto &which>
void run_each(job &in, const two_buffers &with, MPI_Comm comm,
              std::initializer_list<int> counts = all_counts)
{
    for (const collective &one : which) {
        const std::string before = in.failure;
        for (int count : counts) {
            run_one(in, one, with, comm, count);
        }
        if (before.empty() && !in.failure.empty()) {
            in.failure = one.name + (": " + in.failure);
        }
    }
}

template <const auto &which>
void run_same(job &in, memory first, memory second)
{
    run_each<which>(in, same_kinds(in, first, second), MPI_COMM_WORLD);
}

template <const auto &which>
void run_crossed(job &in, memory first, memory second)
{
    run_each<which>(in, crossed_kinds(first, second), MPI_COMM_WORLD);
}

// What is sent is on the rank's GPU, what is received on another.
template <int... counts>
void run_apart(job &in, memory first, memory second)
{
    two_buffers with = crossed_kinds(first, second);

    in.expect(gpu::count() >= 2, "there is only one GPU");
    with.apart = true;
    run_each<blocking>(in, with, MPI_COMM_WORLD, {counts...});
    run_each<nonblocking>(in, with, MPI_COMM_WORLD, {counts...});
}

void run_neighbours(job &in, memory first, memory second)
{
    const int around = 1;
    MPI_Comm ring    = MPI_COMM_NULL;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &in.size, &around, 0, &ring);
    run_each<neighbours>(in, same_kinds(in, first, second), ring);
    MPI_Comm_free(&ring);
}

} // namespace

void add_all_collectives(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const auto add = [cases](memory first, memory second) {
        const std::string kinds =
            std::string(": ") + name_of(first) + ", " + name_of(second);
        const auto push = [&](const std::string &name,
                              void (*run)(job &, memory, memory)) {
            cases->push_back({"all_collectives", name + kinds, run, first,
                              second, staging::follows});
        };
        push("collectives", run_same<blocking>);
        push("non-blocking collectives", run_same<nonblocking>);
        push("collectives in a ring", run_neighbours);
        if (first != second) {
            push("collectives from one to the other", run_crossed<blocking>);
            push("non-blocking collectives from one to the other",
                 run_crossed<nonblocking>);
        }
    };

    add(device, device);
    add(host, device);
    add(device, host);
    cases->push_back({"large_apart", "collectives from GPU to GPU, large",
                      run_apart<40009>, device, device, staging::follows});
    cases->push_back({"small_apart", "collectives from GPU to GPU, small",
                      run_apart<1, 5, 1000>, device, device, staging::any});
}

} // namespace ucx_ib_dmabuf::test
