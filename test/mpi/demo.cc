// SPDX-License-Identifier: BSD-3-Clause
//
// The demo: two ranks exchange messages between device memory, of the sizes in
// MPI_DEMO_SIZES. Rank 0 prints a line per size, from which test/mpi/demo makes
// a table:
//   size SIZE staged BYTES messages COUNT wrong COUNT
// BYTES are those that the GPUs copied for UCX.
#include "job.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t largest = 16 << 20;
constexpr size_t window  = 32 << 20; // bytes of concurrent messages

// Concurrent messages in both directions.
void exchange_window(job &in, buffer &outgoing, const buffer &incoming,
                     size_t size)
{
    const size_t count    = std::clamp<size_t>(window / size, 2, 16);
    const uint64_t number = in.next_number(2 * count);
    const auto first      = [&](int rank) { return number + rank * count; };
    std::vector<MPI_Request> requests(2 * count);

    for (size_t i = 0; i < count; ++i) {
        outgoing.put(i * size, size, first(in.rank) + i);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    {
        const job::copies counted(in);
        for (size_t i = 0; i < count; ++i) {
            MPI_Irecv(incoming.at(i * size), static_cast<int>(size), MPI_BYTE,
                      in.peer(), in.tag, MPI_COMM_WORLD, &requests[2 * i]);
            MPI_Isend(outgoing.at(i * size), static_cast<int>(size), MPI_BYTE,
                      in.peer(), in.tag, MPI_COMM_WORLD, &requests[2 * i + 1]);
        }
        MPI_Waitall(static_cast<int>(requests.size()), requests.data(),
                    MPI_STATUSES_IGNORE);
    }
    for (size_t i = 0; i < count; ++i) {
        in.expect_message(incoming, i * size, size, first(in.peer()) + i);
    }
}

void run_size(job &in, buffer &outgoing, const buffer &incoming, size_t size)
{
    job part = in.for_thread(0); // with messages and copies of its own

    for (int i = 0; i < 4; ++i) {
        exchange_window(part, outgoing, incoming, size);
    }
    const std::array mine = {part.staged, part.checked.messages,
                             part.checked.wrong};
    std::array<unsigned long, mine.size()> all{};
    MPI_Reduce(mine.data(), all.data(), mine.size(), MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (in.rank == 0) {
        std::printf("size %zu staged %lu messages %lu wrong %lu\n", size,
                    all[0], all[1], all[2]);
        std::fflush(stdout);
    }
    in.join(part);
}

void run_demo(job &in, memory kind, memory)
{
    const char *set = std::getenv("MPI_DEMO_SIZES");
    std::istringstream sizes(
        set ? set : "8 512 4096 32768 262144 1048576 4194304 16777216");
    buffer outgoing(kind, window), incoming(kind, window);
    size_t size = 0;

    while (sizes >> size) {
        run_size(in, outgoing, incoming, std::min(size, largest));
    }
}

} // namespace

void add_demo(case_list &cases)
{
    cases.add("demo", "the demo's messages", run_demo, memory::device,
              staging::any);
}

} // namespace ucx_ib_dmabuf::test
