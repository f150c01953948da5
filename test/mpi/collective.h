// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_MPI_COLLECTIVE_H_
#define UCX_IB_DMABUF_TEST_MPI_COLLECTIVE_H_

#include <cstddef>
#include <cstdint>
#include <mpi.h>
#include <vector>

// One collective call, in tables of them.
namespace ucx_ib_dmabuf::test {

inline constexpr size_t element = sizeof(uint64_t);

// Both buffers have a part for each rank, of these many elements.
struct parts {
    std::vector<int> counts;
    std::vector<int> offsets;
    std::vector<int> byte_counts;
    std::vector<int> byte_offsets;
    std::vector<MPI_Datatype> types;
    int count = 0; // of each, where all are equal
    int total = 0;
};

// Of these many elements, each part as much larger than the one before.
parts lay_out(int ranks, int count, int growth);

struct call {
    const parts &p;
    int root;
    int me;
    MPI_Comm comm;
    uint8_t *send;
    uint8_t *receive;
    MPI_Request *request; // of calls that do not block

    int mine() const { return p.counts[static_cast<size_t>(me)]; }
};

inline MPI_Datatype type()
{
    return MPI_UINT64_T;
}

struct collective {
    const char *name;
    bool rooted;
    bool equal; // all parts are
    int own;    // copies of the rank's own part that the call may make
    void (*run)(const call &);
};

} // namespace ucx_ib_dmabuf::test

#endif
