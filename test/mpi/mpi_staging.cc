// SPDX-License-Identifier: BSD-3-Clause
//
// Messages from host memory to device memory and back, of which UCX stages the
// device's part if it cannot be registered (test/mpi/staging_pairs). Rank 0
// prints a line per size, in bytes and microseconds for half a round trip:
//   size SIZE latency MEDIAN
#include "buffer.h"
#include "pattern.h"
#include <algorithm>
#include <cstdio>
#include <mpi.h>
#include <vector>

using namespace ucx_ib_dmabuf::test;

namespace {

// There and back; the bytes are looked at when the clock is not running.
double round_trip(buffer &mine, size_t size, uint64_t number)
{
    const int peer  = mine.kind() == memory::host ? 1 : 0;
    const int count = static_cast<int>(size);

    if (peer == 1) {
        mine.put(0, size, number);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    if (peer == 1) {
        MPI_Send(mine.at(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
    MPI_Recv(mine.at(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (peer == 0) {
        MPI_Send(mine.at(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
    const double elapsed = MPI_Wtime() - start;
    if (mine.compare(0, size, number) != no_difference) {
        std::fprintf(stderr, "a message of %zu bytes is wrong\n", size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return elapsed;
}

} // namespace

int main(int argc, char **argv)
{
    constexpr int turns = 21;
    int rank;

    gpu::count(); // opens libcuda before UCX looks for it
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    gpu::use(0);
    {
        buffer mine(rank == 0 ? memory::host : memory::device, 4 << 20);
        uint64_t number = 1;
        for (size_t size : {32 << 10, 128 << 10, 512 << 10, 1 << 20, 4 << 20}) {
            std::vector<double> all;
            for (int i = 0; i < turns; ++i, number += 2) {
                all.push_back(round_trip(mine, size, number) * 1e6 / 2);
            }
            std::sort(all.begin() + 1, all.end()); // the first one connects
            if (rank == 0) {
                std::printf("size %zu latency %.1f\n", size,
                            all[1 + (turns - 1) / 2]);
            }
        }
    }
    MPI_Finalize();
    return 0;
}
