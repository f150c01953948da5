// SPDX-License-Identifier: BSD-3-Clause
//
// Persistent collectives, started again and again with other bytes: MPI-4's, or
// Open MPI 4's extension.
#include "collective.h"
#include "compared.h"
#include <mpi.h>
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5
#define PERSISTENT(_name) MPI_##_name##_init
#else
#include <mpi-ext.h>
#define PERSISTENT(_name) MPIX_##_name##_init
#endif

namespace ucx_ib_dmabuf::test {
namespace {

// Open MPI's pack and unpack the own part, through host memory.
const collective persistent[] = {
    {"MPI_Bcast_init", true, true, 0,
     [](const call &c) {
         PERSISTENT(Bcast)
         (c.receive, c.p.total, type(), c.root, c.comm, MPI_INFO_NULL,
          c.request);
     }},
    {"MPI_Gather_init", true, true, 2,
     [](const call &c) {
         PERSISTENT(Gather)
         (c.send, c.p.count, type(), c.receive, c.p.count, type(), c.root,
          c.comm, MPI_INFO_NULL, c.request);
     }},
    {"MPI_Gatherv_init", true, false, 2,
     [](const call &c) {
         PERSISTENT(Gatherv)
         (c.send, c.mine(), type(), c.receive, c.p.counts.data(),
          c.p.offsets.data(), type(), c.root, c.comm, MPI_INFO_NULL, c.request);
     }},
    {"MPI_Scatter_init", true, true, 2,
     [](const call &c) {
         PERSISTENT(Scatter)
         (c.send, c.p.count, type(), c.receive, c.p.count, type(), c.root,
          c.comm, MPI_INFO_NULL, c.request);
     }},
    {"MPI_Scatterv_init", true, false, 2,
     [](const call &c) {
         PERSISTENT(Scatterv)
         (c.send, c.p.counts.data(), c.p.offsets.data(), type(), c.receive,
          c.mine(), type(), c.root, c.comm, MPI_INFO_NULL, c.request);
     }},
    {"MPI_Allgather_init", false, true, 2,
     [](const call &c) {
         PERSISTENT(Allgather)
         (c.send, c.p.count, type(), c.receive, c.p.count, type(), c.comm,
          MPI_INFO_NULL, c.request);
     }},
    {"MPI_Allgatherv_init", false, false, 2,
     [](const call &c) {
         PERSISTENT(Allgatherv)
         (c.send, c.mine(), type(), c.receive, c.p.counts.data(),
          c.p.offsets.data(), type(), c.comm, MPI_INFO_NULL, c.request);
     }},
    {"MPI_Alltoall_init", false, true, 2,
     [](const call &c) {
         PERSISTENT(Alltoall)
         (c.send, c.p.count, type(), c.receive, c.p.count, type(), c.comm,
          MPI_INFO_NULL, c.request);
     }},
    {"MPI_Alltoallv_init", false, true, 2,
     [](const call &c) {
         PERSISTENT(Alltoallv)
         (c.send, c.p.counts.data(), c.p.offsets.data(), type(), c.receive,
          c.p.counts.data(), c.p.offsets.data(), type(), c.comm, MPI_INFO_NULL,
          c.request);
     }},
    {"MPI_Alltoallw_init", false, true, 2,
     [](const call &c) {
         PERSISTENT(Alltoallw)
         (c.send, c.p.byte_counts.data(), c.p.byte_offsets.data(),
          c.p.types.data(), c.receive, c.p.byte_counts.data(),
          c.p.byte_offsets.data(), c.p.types.data(), c.comm, MPI_INFO_NULL,
          c.request);
     }},
};

void start(MPI_Request *request)
{
    MPI_Start(request);
    // NOLINTNEXTLINE(*MPI-Checker): it does not know MPI_Start
    MPI_Wait(request, MPI_STATUS_IGNORE);
}

// One request for each of the two memories, and three starts of each.
void run_one(job &in, const collective &one, two_buffers with, int count)
{
    const parts p    = lay_out(in.size, count, one.equal ? 0 : 1001);
    const bool large = static_cast<size_t>(count) * element >= rendezvous;
    const auto mine =
        static_cast<size_t>(p.counts[static_cast<size_t>(in.rank)]);

    with.sent = with.received = static_cast<size_t>(p.total) * element;
    for (int root = 0; root < (one.rooted ? in.size : 1); ++root) {
        compared both(in, with);
        MPI_Request host = MPI_REQUEST_NULL, there = MPI_REQUEST_NULL;

        one.run({p, root, in.rank, MPI_COMM_WORLD, both.host_send(),
                 both.host_receive(), &host});
        one.run({p, root, in.rank, MPI_COMM_WORLD, both.send(), both.receive(),
                 &there});
        for (int turn = 0; turn < 3; ++turn) {
            both.run([&] { start(&host); }, [&] { start(&there); }, large,
                     mine * element * static_cast<size_t>(one.own));
        }
        MPI_Request_free(&host);
        MPI_Request_free(&there);
    }
}

void run_each(job &in, const two_buffers &with)
{
    for (const collective &one : persistent) {
        const std::string before = in.failure;
        for (int count : {5, 40009}) {
            run_one(in, one, with, count);
        }
        if (before.empty() && !in.failure.empty()) {
            in.failure = one.name + (": " + in.failure);
        }
    }
}

void run_same(job &in, memory first, memory second)
{
    run_each(in, same_kinds(in, first, second));
}

void run_crossed(job &in, memory first, memory second)
{
    run_each(in, crossed_kinds(first, second));
}

// Open MPI 4.1's compute with the CPU where the data is: with a GPU's memory
// they end (a group of its own), with managed memory they do not.
const struct {
    const char *name;
    void (*run)(const call &);
} reductions[] = {
    {"MPI_Allreduce_init",
     [](const call &c) {
         PERSISTENT(Allreduce)
         (c.send, c.receive, c.p.count, type(), MPI_SUM, c.comm, MPI_INFO_NULL,
          c.request);
     }},
    {"MPI_Reduce_init",
     [](const call &c) {
         PERSISTENT(Reduce)
         (c.send, c.receive, c.p.count, type(), MPI_MAX, c.root, c.comm,
          MPI_INFO_NULL, c.request);
     }},
    {"MPI_Reduce_scatter_init",
     [](const call &c) {
         PERSISTENT(Reduce_scatter)
         (c.send, c.receive, c.p.counts.data(), type(), MPI_SUM, c.comm,
          MPI_INFO_NULL, c.request);
     }},
    {"MPI_Reduce_scatter_block_init",
     [](const call &c) {
         PERSISTENT(Reduce_scatter_block)
         (c.send, c.receive, c.p.count, type(), MPI_BXOR, c.comm, MPI_INFO_NULL,
          c.request);
     }},
    {"MPI_Scan_init",
     [](const call &c) {
         PERSISTENT(Scan)
         (c.send, c.receive, c.p.count, type(), MPI_SUM, c.comm, MPI_INFO_NULL,
          c.request);
     }},
    {"MPI_Exscan_init",
     [](const call &c) {
         PERSISTENT(Exscan)
         (c.send, c.receive, c.p.count, type(), MPI_SUM, c.comm, MPI_INFO_NULL,
          c.request);
     }},
};

template <size_t index>
void run_reduction(job &in, memory first, memory second)
{
    const collective one = {reductions[index].name, false, true, 0,
                            reductions[index].run};

    for (int count : {5, 40009}) {
        run_one(in, one, crossed_kinds(first, second), count);
    }
}

// Each ends a job by itself, so each is a group.
template <size_t... index>
void add_reductions(std::vector<test_case> *cases,
                    std::index_sequence<index...>)
{
    const memory device = memory::device, managed = memory::managed,
                 host = memory::host;

    (cases->push_back({reductions[index].name, reductions[index].name,
                       run_reduction<index>, device, device, staging::any}),
     ...);
    for (memory other : {managed, host}) {
        (cases->push_back({"persistent",
                           std::string(reductions[index].name) + ": " +
                               name_of(managed) + ", " + name_of(other),
                           run_reduction<index>, managed, other, staging::any}),
         ...);
    }
}

} // namespace

void add_persistent(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const auto add = [cases](const char *name, memory first, memory second,
                             void (*run)(job &, memory, memory)) {
        cases->push_back(
            {"persistent",
             std::string(name) + ": " + name_of(first) + ", " + name_of(second),
             run, first, second, staging::follows});
    };

    add("persistent collectives", device, device, run_same);
    add("persistent collectives", host, device, run_same);
    add("persistent collectives from one to the other", host, device,
        run_crossed);
    add("persistent collectives from one to the other", device, host,
        run_crossed);
    add_reductions(cases, std::make_index_sequence<std::size(reductions)>());
}

} // namespace ucx_ib_dmabuf::test
