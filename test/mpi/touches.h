// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <mpi.h>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf::test {

// The arguments of an MPI call, in each rank.
struct arguments {
    int *from; // each buffer holds two parts for each rank
    int *to;
    int count; // of a part, in MPI_INT
    int rank;
    int size; // must be even

    int peer() const { return rank ^ 1; }
    bool sends() const { return rank % 2 == 0; }
};

struct mpi_operation {
    std::string name;
    std::function<void(const arguments &)> run;
};

// The calls that docs/guide.md lists.
std::vector<mpi_operation> point_to_point();
std::vector<mpi_operation> collectives();
std::vector<mpi_operation> local_operations();

} // namespace ucx_ib_dmabuf::test
