// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that compute, which an MPI built with CUDA does in host memory;
// and those for which Open MPI has no such code.
#include "compared.h"
#include <cstring>
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t element = sizeof(uint64_t);

struct call {
    int count; // elements of each rank's part; both buffers have all parts
    const std::vector<int> &counts;
    int root;
    MPI_Op op;
    void *send; // may be MPI_IN_PLACE
    uint8_t *receive;
    MPI_Request *request; // of calls that do not block
};

struct reduction {
    const char *name;
    bool rooted;
    bool in_place; // it can be
    void (*run)(const call &);
};

MPI_Datatype type()
{
    return MPI_UINT64_T;
}
MPI_Comm world()
{
    return MPI_COMM_WORLD;
}

const reduction reductions[] = {
    {"MPI_Reduce", true, true,
     [](const call &c) {
         MPI_Reduce(c.send, c.receive, c.count, type(), c.op, c.root, world());
     }},
    {"MPI_Allreduce", false, true,
     [](const call &c) {
         MPI_Allreduce(c.send, c.receive, c.count, type(), c.op, world());
     }},
    {"MPI_Reduce_scatter", false, true,
     [](const call &c) {
         MPI_Reduce_scatter(c.send, c.receive, c.counts.data(), type(), c.op,
                            world());
     }},
    // In place, Open MPI 4.1 copies one part to the host and reduces all.
    {"MPI_Reduce_scatter_block", false, false,
     [](const call &c) {
         MPI_Reduce_scatter_block(c.send, c.receive, c.count, type(), c.op,
                                  world());
     }},
    {"MPI_Scan", false, true,
     [](const call &c) {
         MPI_Scan(c.send, c.receive, c.count, type(), c.op, world());
     }},
    {"MPI_Exscan", false, true,
     [](const call &c) {
         MPI_Exscan(c.send, c.receive, c.count, type(), c.op, world());
     }},
};

// Each ends Open MPI 4.1, which computes where the data is.
const reduction unaware[] = {
    {"MPI_Reduce_local", false, true,
     [](const call &c) {
         MPI_Reduce_local(c.send, c.receive, c.count, type(), c.op);
     }},
    {"MPI_Ireduce", true, true,
     [](const call &c) {
         MPI_Ireduce(c.send, c.receive, c.count, type(), c.op, c.root, world(),
                     c.request);
     }},
    {"MPI_Iallreduce", false, true,
     [](const call &c) {
         MPI_Iallreduce(c.send, c.receive, c.count, type(), c.op, world(),
                        c.request);
     }},
    {"MPI_Ireduce_scatter", false, true,
     [](const call &c) {
         MPI_Ireduce_scatter(c.send, c.receive, c.counts.data(), type(), c.op,
                             world(), c.request);
     }},
    {"MPI_Ireduce_scatter_block", false, true,
     [](const call &c) {
         MPI_Ireduce_scatter_block(c.send, c.receive, c.count, type(), c.op,
                                   world(), c.request);
     }},
    {"MPI_Iscan", false, true,
     [](const call &c) {
         MPI_Iscan(c.send, c.receive, c.count, type(), c.op, world(),
                   c.request);
     }},
    {"MPI_Iexscan", false, true,
     [](const call &c) {
         MPI_Iexscan(c.send, c.receive, c.count, type(), c.op, world(),
                     c.request);
     }},
};

// Which order matters for: the second operand's low half, the first one's high.
void low_and_high(void *in, void *inout, int *count, MPI_Datatype *)
{
    const auto *first = static_cast<const uint8_t *>(in);
    auto *second      = static_cast<uint8_t *>(inout);

    for (size_t i = 0; i < static_cast<size_t>(*count); ++i) {
        uint64_t a, b;
        std::memcpy(&a, first + i * element, element);
        std::memcpy(&b, second + i * element, element);
        b = a * 3 + b * 5 + (a >> 32);
        std::memcpy(second + i * element, &b, element);
    }
}

void run_one(job &in, const reduction &one, two_buffers with, int count,
             MPI_Op op, bool in_place)
{
    const std::vector<int> counts(static_cast<size_t>(in.size), count);
    const bool large = static_cast<size_t>(count) * element >= rendezvous;

    with.sent = with.received =
        static_cast<size_t>(count) * static_cast<size_t>(in.size) * element;
    for (int root = 0; root < (one.rooted ? in.size : 1); ++root) {
        const bool own_place = in_place && (!one.rooted || in.rank == root);
        const auto run       = [&](uint8_t *send, uint8_t *receive) {
            MPI_Request request = MPI_REQUEST_NULL;
            one.run({count, counts, root, op, own_place ? MPI_IN_PLACE : send,
                     receive, &request});
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        };
        compare_with_host(in, with, run, large);
    }
}

void run_operations(job &in, const reduction &one, const two_buffers &with)
{
    MPI_Op ordered = MPI_OP_NULL;

    MPI_Op_create(low_and_high, 0, &ordered);
    for (MPI_Op op : {MPI_SUM, MPI_MAX, MPI_BXOR, ordered}) {
        for (int count : {1, 1000, 40009}) {
            run_one(in, one, with, count, op, false);
        }
        if (one.in_place) {
            run_one(in, one, with, 40009, op, true);
        }
    }
    MPI_Op_free(&ordered);
}

void run_same(job &in, memory first, memory second)
{
    for (const reduction &one : reductions) {
        run_operations(in, one, same_kinds(in, first, second));
    }
}

void run_crossed(job &in, memory first, memory second)
{
    for (const reduction &one : reductions) {
        run_operations(in, one, crossed_kinds(first, second));
    }
}

template <size_t index>
void run_unaware(job &in, memory first, memory second)
{
    run_one(in, unaware[index], same_kinds(in, first, second), 40009, MPI_SUM,
            false);
}

// A group each: a job does not go on after any of them.
template <size_t... index>
void add_unaware(std::vector<test_case> *cases, std::index_sequence<index...>)
{
    (cases->push_back({unaware[index].name, unaware[index].name,
                       run_unaware<index>, memory::device, memory::device,
                       staging::any}),
     ...);
}

} // namespace

void add_reductions(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const auto add = [cases](memory first, memory second) {
        const std::string kinds =
            std::string(": ") + name_of(first) + ", " + name_of(second);
        cases->push_back({"reductions", "reductions" + kinds, run_same, first,
                          second, staging::any});
        if (first != second) {
            cases->push_back({"reductions",
                              "reductions from one to the other" + kinds,
                              run_crossed, first, second, staging::any});
        }
    };

    add(device, device);
    add(host, device);
    add(device, host);
    add(memory::managed, device);
    add_unaware(cases, std::make_index_sequence<std::size(unaware)>());
}

} // namespace ucx_ib_dmabuf::test
