// SPDX-License-Identifier: BSD-3-Clause
//
// Latency and bandwidth of known memory, and the latency of a first use.
#include "allocator.h"
#include "run.h"
#include <algorithm>
#include <mpi.h>
#include <mpi/buffer.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Returns the microseconds of a message from rank 0 and an empty answer.
double one_way(const run &in, uint8_t *at, size_t length)
{
    const int count = static_cast<int>(length);

    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    if (in.rank() == 0) {
        MPI_Send(at, count, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(nullptr, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(at, count, MPI_BYTE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(nullptr, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    return (MPI_Wtime() - start) * 1e6;
}

void take_latency(const run &in, const std::string &name, uint8_t *at,
                  size_t length, int count)
{
    std::vector<double> all;

    one_way(in, at, length);
    for (int i = 0; i < count; ++i) {
        all.push_back(one_way(in, at, length));
    }
    in.figure_of_first(name, median(all));
}

// Measures the bandwidth of eight concurrent messages, in MB/s.
void take_bandwidth(const run &in, const std::string &name, uint8_t *at,
                    size_t length)
{
    constexpr int window = 8;
    std::vector<double> all;

    for (int turn = 0; turn < 9; ++turn) {
        std::vector<MPI_Request> requests(window);

        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (int i = 0; i < window; ++i) {
            (in.rank() == 0 ? MPI_Isend(at + i * length, length, MPI_BYTE, 1, 0,
                                        MPI_COMM_WORLD, &requests[i])
                            : MPI_Irecv(at + i * length, length, MPI_BYTE, 0, 0,
                                        MPI_COMM_WORLD, &requests[i]));
        }
        MPI_Waitall(window, requests.data(), MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn > 0) {
            all.push_back(window * length / (MPI_Wtime() - start) / 1e6);
        }
    }
    in.figure_of_first(name, median(all));
}

// Measures the first message in each buffer.
void take_first(const run &in, const std::string &name,
                const std::vector<uint8_t *> &buffers, size_t length)
{
    std::vector<double> all;

    for (uint8_t *each : buffers) {
        all.push_back(one_way(in, each, length));
    }
    in.figure_of_first(name, median(all));
}

std::vector<uint8_t *> parts(uint8_t *at, size_t count, size_t step)
{
    std::vector<uint8_t *> all;

    for (size_t i = 0; i < count; ++i) {
        all.push_back(at + i * step);
    }
    return all;
}

} // namespace

void take_times(run &in, const arguments &)
{
    constexpr size_t pool = 64 * MiB, length = 256 * KiB;

    if (in.dry()) {
        return;
    }
    allocator device("device"), segments("vmm");
    buffer host(memory::host, pool);
    uint8_t *known = device.allocate(pool);

    take_latency(in, "latency_8", known, 8, 40);
    take_latency(in, "latency_64k", known, 64 * KiB, 40);
    take_latency(in, "latency_1m", known, MiB, 20);
    take_latency(in, "host_64k", host.at(), 64 * KiB, 40);
    take_bandwidth(in, "bandwidth", known, MiB);
    take_bandwidth(in, "host_bandwidth", host.at(), MiB);

    take_first(in, "first_part", parts(known + pool / 2, 24, MiB), length);
    std::vector<uint8_t *> all;
    for (int i = 0; i < 24; ++i) {
        all.push_back(segments.allocate(2 * MiB));
    }
    // All of the range is mapped; this message makes it known.
    one_way(in, all.front(), length);
    all.erase(all.begin());
    take_first(in, "first_segment", all, length);
    for (uint8_t *&each : all) {
        each = device.allocate(2 * MiB);
    }
    take_first(in, "first_allocation", all, length);
}

} // namespace ucx_ib_dmabuf::test
