// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives that do not compute, over device memory. Open MPI copies a
// rank's own part with the CPU unless it is built with CUDA, and Debian's is
// not: the own part stays where it is (MPI_IN_PLACE, or a count of zero), and
// everything that moves between ranks moves in UCX.
#include "job.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

// One part per rank, laid out without holes; the parts of the variants with a
// "v" differ in length.
struct layout {
    std::vector<int> lengths;
    std::vector<int> offsets;
    std::vector<uint64_t> numbers;
    size_t total = 0;
};

layout lay_out(job &in, bool equal)
{
    layout parts;

    for (int i = 0; i < in.size; ++i) {
        const size_t length =
            equal ? 300007 : rendezvous + static_cast<size_t>(i) * 77777;
        parts.lengths.push_back(static_cast<int>(length));
        parts.offsets.push_back(static_cast<int>(parts.total));
        parts.numbers.push_back(in.next_number());
        parts.total += length;
    }
    return parts;
}

size_t index(int rank)
{
    return static_cast<size_t>(rank);
}

void put(buffer &into, const layout &parts, int rank)
{
    const size_t i = index(rank);

    into.put(static_cast<size_t>(parts.offsets[i]),
             static_cast<size_t>(parts.lengths[i]), parts.numbers[i]);
}

void expect_part(job &in, const buffer &from, const layout &parts, int rank)
{
    const size_t i = index(rank);

    in.expect_message(from, static_cast<size_t>(parts.offsets[i]),
                      static_cast<size_t>(parts.lengths[i]), parts.numbers[i]);
}

// Rank 0 has the first kind of memory, the others have the second.
memory kind_of(const job &in, memory first, memory second)
{
    return in.rank == 0 ? first : second;
}

void run_bcast(job &in, memory first, memory second)
{
    constexpr size_t length = (1 << 20) + 11;
    buffer data(kind_of(in, first, second), length + 3);

    for (int root = 0; root < in.size; ++root) {
        const uint64_t number = in.next_number();
        if (in.rank == root) {
            data.put(3, length, number);
        }
        {
            job::copies counted(in);
            MPI_Bcast(data.at(3), length, MPI_BYTE, root, MPI_COMM_WORLD);
        }
        in.expect_message(data, 3, length, number);
    }
}

void run_gather(job &in, memory first, memory second)
{
    for (bool equal : {true, false}) {
        const layout parts = lay_out(in, equal);
        buffer data(kind_of(in, first, second), parts.total);
        const size_t me = index(in.rank);
        uint8_t *mine   = data.at(static_cast<size_t>(parts.offsets[me]));
        void *from      = in.rank == 0 ? MPI_IN_PLACE : mine;

        put(data, parts, in.rank);
        {
            job::copies counted(in);
            if (equal) {
                MPI_Gather(from, parts.lengths[me], MPI_BYTE, data.at(),
                           parts.lengths[0], MPI_BYTE, 0, MPI_COMM_WORLD);
            } else {
                MPI_Gatherv(from, parts.lengths[me], MPI_BYTE, data.at(),
                            parts.lengths.data(), parts.offsets.data(),
                            MPI_BYTE, 0, MPI_COMM_WORLD);
            }
        }
        for (int i = 0; in.rank == 0 && i < in.size; ++i) {
            expect_part(in, data, parts, i);
        }
    }
}

void run_scatter(job &in, memory first, memory second)
{
    for (bool equal : {true, false}) {
        const layout parts = lay_out(in, equal);
        buffer data(kind_of(in, first, second), parts.total);
        const size_t me = index(in.rank);
        uint8_t *mine   = data.at(static_cast<size_t>(parts.offsets[me]));
        void *to        = in.rank == 0 ? MPI_IN_PLACE : mine;

        for (int i = 0; in.rank == 0 && i < in.size; ++i) {
            put(data, parts, i);
        }
        {
            job::copies counted(in);
            if (equal) {
                MPI_Scatter(data.at(), parts.lengths[0], MPI_BYTE, to,
                            parts.lengths[me], MPI_BYTE, 0, MPI_COMM_WORLD);
            } else {
                MPI_Scatterv(data.at(), parts.lengths.data(),
                             parts.offsets.data(), MPI_BYTE, to,
                             parts.lengths[me], MPI_BYTE, 0, MPI_COMM_WORLD);
            }
        }
        expect_part(in, data, parts, in.rank);
    }
}

void run_allgather(job &in, memory first, memory second)
{
    for (bool equal : {true, false}) {
        const layout parts = lay_out(in, equal);
        buffer data(kind_of(in, first, second), parts.total);

        put(data, parts, in.rank);
        {
            job::copies counted(in);
            if (equal) {
                MPI_Allgather(MPI_IN_PLACE, 0, MPI_BYTE, data.at(),
                              parts.lengths[0], MPI_BYTE, MPI_COMM_WORLD);
            } else {
                MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_BYTE, data.at(),
                               parts.lengths.data(), parts.offsets.data(),
                               MPI_BYTE, MPI_COMM_WORLD);
            }
        }
        for (int i = 0; i < in.size; ++i) {
            expect_part(in, data, parts, i);
        }
    }
}

// What rank i sends to rank j has the number first + i * size + j.
void run_alltoallv(job &in, memory first, memory second)
{
    const layout parts     = lay_out(in, true);
    const uint64_t numbers = in.next_number();
    const memory kind      = kind_of(in, first, second);
    const size_t length    = static_cast<size_t>(parts.lengths[0]);
    const size_t size = index(in.size), me = index(in.rank);
    buffer outgoing(kind, parts.total), incoming(kind, parts.total);
    std::vector<int> lengths = parts.lengths;

    for (size_t i = 1; i < size * size; ++i) {
        in.next_number();
    }
    lengths[me] = 0;
    for (size_t i = 0; i < size; ++i) {
        outgoing.put(i * length, length, numbers + me * size + i);
    }
    {
        job::copies counted(in);
        MPI_Alltoallv(outgoing.at(), lengths.data(), parts.offsets.data(),
                      MPI_BYTE, incoming.at(), lengths.data(),
                      parts.offsets.data(), MPI_BYTE, MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < size; ++i) {
        if (i != me) {
            in.expect_message(incoming, i * length, length,
                              numbers + i * size + me);
        }
    }
}

struct collective {
    const char *name;
    void (*run)(job &, memory, memory);
};

} // namespace

void add_collectives(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const collective all[] = {
        {"MPI_Bcast", run_bcast},
        {"MPI_Gather and MPI_Gatherv", run_gather},
        {"MPI_Scatter and MPI_Scatterv", run_scatter},
        {"MPI_Allgather and MPI_Allgatherv", run_allgather},
        {"MPI_Alltoallv", run_alltoallv},
    };

    for (const collective &one : all) {
        const std::string name = one.name;
        cases->push_back({"collectives", name + ", device memory", one.run,
                          device, device, staging::follows});
        cases->push_back({"collectives", name + ", host memory in rank 0",
                          one.run, host, device, staging::follows});
        cases->push_back({"collectives", name + ", host memory", one.run, host,
                          host, staging::never});
    }
}

} // namespace ucx_ib_dmabuf::test
