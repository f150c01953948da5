// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <mpi.h>
#include <span>
#include <vector>

// Collective calls, in tables of them.
namespace ucx_ib_dmabuf::test {

inline constexpr size_t element = sizeof(uint64_t);

inline MPI_Datatype type()
{
    return MPI_UINT64_T;
}

// Both buffers have a part for each rank, of these many elements.
struct parts {
    // Each part is larger than the one before by `growth` elements.
    parts(int ranks, int first, int growth);
    // Leaves the part of a rank out.
    void drop(int rank);

    std::vector<int> counts;
    std::vector<int> offsets;
    std::vector<int> byte_counts;
    std::vector<int> byte_offsets;
    std::vector<MPI_Datatype> types;
    int count; // of each, where all are equal
    int total = 0;
};

struct call {
    const parts &p;
    int root;
    int me;
    MPI_Comm comm;
    MPI_Op op;
    void *send; // either may be MPI_IN_PLACE
    void *receive;
    MPI_Request *request; // MPI_REQUEST_NULL before the first call

    int mine() const { return p.counts[static_cast<size_t>(me)]; }
};

// How a call is made.
enum form { blocking, nonblocking, persistent };

// Where a rank's own part can stay as it is: a buffer of the root, or what each
// rank sends.
enum class place { nowhere, root_sends, root_receives, all_send };

struct collective {
    const char *names[3]; // of each form
    bool rooted;
    bool equal;     // all parts are
    int own;        // copies of the own part that the blocking call may make
    place in_place; // where Open MPI 4.1 does not get it wrong
    void (*run[3])(const call &);
};

std::span<const collective> gathers(); // and scatters, and a broadcast
std::span<const collective> exchanges();
std::span<const collective> reductions();
std::span<const collective> neighbours(); // of a ring

// The call with the own part in its place.
call put_in_place(const collective &one, call with);
// Makes it, and waits for its end; if it is persistent once more where the
// request is from before.
void make(const collective &one, form as, const call &with);

} // namespace ucx_ib_dmabuf::test
