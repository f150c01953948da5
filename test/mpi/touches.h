// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <mpi.h>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf::test {

// What a call of MPI's is made with, in each rank.
struct arguments {
    int *from; // both have room for a part for each rank, and as much again
    int *to;
    int count; // of a part, in MPI_INT
    int rank;
    int size; // an even number of ranks

    int peer() const { return rank ^ 1; }
    bool sends() const { return rank % 2 == 0; }
};

struct mpi_operation {
    std::string name;
    std::function<void(const arguments &)> run;
};

// As docs/guide.md has them.
std::vector<mpi_operation> point_to_point();
std::vector<mpi_operation> collectives();
std::vector<mpi_operation> local_operations();

} // namespace ucx_ib_dmabuf::test
