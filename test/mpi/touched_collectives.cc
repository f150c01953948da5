// SPDX-License-Identifier: BSD-3-Clause
#include "collective.h"
#include "touches.h"
#include <algorithm>

namespace ucx_ib_dmabuf::test {
namespace {

// A part has as many bytes as `count` elements of MPI_INT.
void run(const collective &one, form as, bool in_place, const arguments &with)
{
    const parts p(with.size, with.count / 2, 0);
    MPI_Request request = MPI_REQUEST_NULL;
    const call plain    = {p,       0,         with.rank, MPI_COMM_WORLD,
                           MPI_SUM, with.from, with.to,   &request};

    make(one, as, in_place ? put_in_place(one, plain) : plain);
}

bool is_one_of(const std::string &name, std::initializer_list<const char *> all)
{
    return std::find(all.begin(), all.end(), name) != all.end();
}

} // namespace

std::vector<mpi_operation> collectives()
{
    std::vector<mpi_operation> all;
    const auto add = [&](const collective &one, form as, bool in_place) {
        all.push_back({one.names[as] + std::string(in_place ? " in place" : ""),
                       [&one, as, in_place](const arguments &with) {
                           run(one, as, in_place, with);
                       }});
    };

    for (const auto &group : {gathers(), exchanges(), reductions()}) {
        for (const collective &one : group) {
            add(one, blocking, false);
            if (is_one_of(one.names[blocking],
                          {"MPI_Gather", "MPI_Scatter", "MPI_Allgather",
                           "MPI_Alltoall", "MPI_Allreduce"})) {
                add(one, blocking, true);
            }
            if (is_one_of(one.names[nonblocking],
                          {"MPI_Ibcast", "MPI_Igather", "MPI_Iallgather",
                           "MPI_Ialltoall", "MPI_Iallreduce"})) {
                add(one, nonblocking, false);
            }
        }
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
                      MPI_COMM_WORLD);
         }},
        {"MPI_Unpack",
         [](args a) {
             int position = 0;
             MPI_Unpack(a.from, a.count * static_cast<int>(sizeof(int)),
                        &position, a.to, a.count, MPI_INT, MPI_COMM_WORLD);
         }},
        {"MPI_Reduce_local",
         [](args a) {
             MPI_Reduce_local(a.from, a.to, a.count, MPI_INT, MPI_SUM);
         }},
    };
}

} // namespace ucx_ib_dmabuf::test
