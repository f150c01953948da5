// SPDX-License-Identifier: BSD-3-Clause
#include "touches.h"
#include <cstddef>

namespace ucx_ib_dmabuf::test {
namespace {

// The same count for each rank, part after part.
struct parts {
    explicit parts(const arguments &with)
        : counts(static_cast<size_t>(with.size), with.count),
          types(counts.size(), MPI_INT)
    {
        for (int i = 0; i < with.size; ++i) {
            offsets.push_back(i * with.count);
            bytes.push_back(offsets.back() * static_cast<int>(sizeof(int)));
        }
    }
    std::vector<int> counts, offsets, bytes;
    std::vector<MPI_Datatype> types;
};

// A request of the call, done.
template <class Call>
void wait_for(Call call)
{
    MPI_Request request = MPI_REQUEST_NULL;

    call(&request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

const MPI_Comm world = MPI_COMM_WORLD;

std::vector<mpi_operation> moving()
{
    using args = const arguments &;
    return {
        {"MPI_Bcast",
         [](args a) { MPI_Bcast(a.from, a.count, MPI_INT, 0, world); }},
        {"MPI_Gather",
         [](args a) {
             MPI_Gather(a.from, a.count, MPI_INT, a.to, a.count, MPI_INT, 0,
                        world);
         }},
        {"MPI_Gather in place",
         [](args a) {
             MPI_Gather((a.rank == 0) ? MPI_IN_PLACE : a.from, a.count, MPI_INT,
                        a.to, a.count, MPI_INT, 0, world);
         }},
        {"MPI_Gatherv",
         [](args a) {
             const parts p(a);
             MPI_Gatherv(a.from, a.count, MPI_INT, a.to, p.counts.data(),
                         p.offsets.data(), MPI_INT, 0, world);
         }},
        {"MPI_Scatter",
         [](args a) {
             MPI_Scatter(a.from, a.count, MPI_INT, a.to, a.count, MPI_INT, 0,
                         world);
         }},
        {"MPI_Scatter in place",
         [](args a) {
             MPI_Scatter(a.from, a.count, MPI_INT,
                         (a.rank == 0) ? MPI_IN_PLACE : a.to, a.count, MPI_INT,
                         0, world);
         }},
        {"MPI_Scatterv",
         [](args a) {
             const parts p(a);
             MPI_Scatterv(a.from, p.counts.data(), p.offsets.data(), MPI_INT,
                          a.to, a.count, MPI_INT, 0, world);
         }},
        {"MPI_Allgather",
         [](args a) {
             MPI_Allgather(a.from, a.count, MPI_INT, a.to, a.count, MPI_INT,
                           world);
         }},
        {"MPI_Allgather in place",
         [](args a) {
             MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, a.to, a.count, MPI_INT,
                           world);
         }},
        {"MPI_Allgatherv",
         [](args a) {
             const parts p(a);
             MPI_Allgatherv(a.from, a.count, MPI_INT, a.to, p.counts.data(),
                            p.offsets.data(), MPI_INT, world);
         }},
        {"MPI_Alltoall",
         [](args a) {
             MPI_Alltoall(a.from, a.count, MPI_INT, a.to, a.count, MPI_INT,
                          world);
         }},
        {"MPI_Alltoall in place",
         [](args a) {
             MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, a.to, a.count, MPI_INT,
                          world);
         }},
        {"MPI_Alltoallv",
         [](args a) {
             const parts p(a);
             MPI_Alltoallv(a.from, p.counts.data(), p.offsets.data(), MPI_INT,
                           a.to, p.counts.data(), p.offsets.data(), MPI_INT,
                           world);
         }},
        {"MPI_Alltoallw",
         [](args a) {
             const parts p(a);
             MPI_Alltoallw(a.from, p.counts.data(), p.bytes.data(),
                           p.types.data(), a.to, p.counts.data(),
                           p.bytes.data(), p.types.data(), world);
         }},
    };
}

std::vector<mpi_operation> computing()
{
    using args = const arguments &;
    return {
        {"MPI_Reduce",
         [](args a) {
             MPI_Reduce(a.from, a.to, a.count, MPI_INT, MPI_SUM, 0, world);
         }},
        {"MPI_Allreduce",
         [](args a) {
             MPI_Allreduce(a.from, a.to, a.count, MPI_INT, MPI_SUM, world);
         }},
        {"MPI_Allreduce in place",
         [](args a) {
             MPI_Allreduce(MPI_IN_PLACE, a.to, a.count, MPI_INT, MPI_SUM,
                           world);
         }},
        {"MPI_Reduce_scatter",
         [](args a) {
             const parts p(a);
             MPI_Reduce_scatter(a.from, a.to, p.counts.data(), MPI_INT, MPI_SUM,
                                world);
         }},
        {"MPI_Reduce_scatter_block",
         [](args a) {
             MPI_Reduce_scatter_block(a.from, a.to, a.count, MPI_INT, MPI_SUM,
                                      world);
         }},
        {"MPI_Scan",
         [](args a) {
             MPI_Scan(a.from, a.to, a.count, MPI_INT, MPI_SUM, world);
         }},
        {"MPI_Exscan",
         [](args a) {
             MPI_Exscan(a.from, a.to, a.count, MPI_INT, MPI_SUM, world);
         }},
    };
}

std::vector<mpi_operation> not_blocking()
{
    using args = const arguments &;
    return {
        {"MPI_Ibcast",
         [](args a) {
             wait_for([&](MPI_Request *request) {
                 MPI_Ibcast(a.from, a.count, MPI_INT, 0, world, request);
             });
         }},
        {"MPI_Igather",
         [](args a) {
             wait_for([&](MPI_Request *request) {
                 MPI_Igather(a.from, a.count, MPI_INT, a.to, a.count, MPI_INT,
                             0, world, request);
             });
         }},
        {"MPI_Iallgather",
         [](args a) {
             wait_for([&](MPI_Request *request) {
                 MPI_Iallgather(a.from, a.count, MPI_INT, a.to, a.count,
                                MPI_INT, world, request);
             });
         }},
        {"MPI_Ialltoall",
         [](args a) {
             wait_for([&](MPI_Request *request) {
                 MPI_Ialltoall(a.from, a.count, MPI_INT, a.to, a.count, MPI_INT,
                               world, request);
             });
         }},
        {"MPI_Iallreduce",
         [](args a) {
             wait_for([&](MPI_Request *request) {
                 MPI_Iallreduce(a.from, a.to, a.count, MPI_INT, MPI_SUM, world,
                                request);
             });
         }},
    };
}

} // namespace

std::vector<mpi_operation> collectives()
{
    std::vector<mpi_operation> all = moving();

    for (const auto &more : {computing(), not_blocking()}) {
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

std::vector<mpi_operation> local_operations()
{
    using args = const arguments &;
    return {
        {"MPI_Pack",
         [](args a) {
             int position = 0;
             MPI_Pack(a.from, a.count, MPI_INT, a.to,
                      a.count * static_cast<int>(sizeof(int)), &position,
                      world);
         }},
        {"MPI_Unpack",
         [](args a) {
             int position = 0;
             MPI_Unpack(a.from, a.count * static_cast<int>(sizeof(int)),
                        &position, a.to, a.count, MPI_INT, world);
         }},
        {"MPI_Reduce_local",
         [](args a) {
             MPI_Reduce_local(a.from, a.to, a.count, MPI_INT, MPI_SUM);
         }},
    };
}

} // namespace ucx_ib_dmabuf::test
