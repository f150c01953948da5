// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <mpi.h>
#include <span>
#include <vector>

// Tables of collective calls.
namespace ucx_ib_dmabuf::test {

inline constexpr size_t element = sizeof(uint64_t);

inline MPI_Datatype type()
{
    return MPI_UINT64_T;
}

// The parts of both buffers, one for each rank, in elements.
struct parts {
    // Each part is larger than the one before by `growth` elements.
    parts(int ranks, int first, int growth);
    // Removes the part of a rank.
    void drop(int rank);

    std::vector<int> counts;
    std::vector<int> offsets;
    std::vector<int> byte_counts;
    std::vector<int> byte_offsets;
    std::vector<MPI_Datatype> types;
    int count; // of each part, if all are equal
    int total = 0;
};

struct call {
    const parts &p;
    int root;
    int me;
    MPI_Op op;
    void *send; // this or `receive` may be MPI_IN_PLACE
    void *receive;
    MPI_Request *request = nullptr; // make() sets it

    int mine() const { return p.counts[static_cast<size_t>(me)]; }
};

// The form of a call.
enum form { blocking, nonblocking };

// The buffer in which a rank's own part can stay: one of the root, or the send
// buffer of each rank.
enum class place { nowhere, root_sends, root_receives, all_send };

struct collective {
    const char *names[2]; // for each form
    bool rooted;
    bool equal;     // all parts have the same size
    int own;        // copies of the own part that the blocking call may make
    place in_place; // nowhere if Open MPI 4.1 gets it wrong
    void (*run[2])(const call &);
};

std::span<const collective> gathers(); // also scatters, and a broadcast
std::span<const collective> exchanges();
std::span<const collective> reductions();

// Returns the call with the own part in place.
call put_in_place(const collective &one, call with);
// Makes the call and waits until it completes.
void make(const collective &one, form as, call with);

} // namespace ucx_ib_dmabuf::test
