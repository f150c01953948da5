// SPDX-License-Identifier: BSD-3-Clause
//
// The demo's program: two ranks exchange messages between device memory and
// between host memory, and check every byte.
// usage: mpi_demo [SIZE]...
// Rank 0 prints a line per size, from which test/mpi/demo makes a table:
//   size SIZE device LATENCY BANDWIDTH STAGED host LATENCY BANDWIDTH STAGED
//       messages COUNT wrong COUNT
// in bytes, microseconds, MB/s (10^6). STAGED counts the bytes that the GPU
// copied for UCX.
#include "buffer.h"
#include "finalize.h"
#include "pattern.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <vector>

using namespace ucx_ib_dmabuf::test;

namespace {

constexpr size_t largest      = 16 << 20;
constexpr size_t window_bytes = 32 << 20; // so that a stall matters little
constexpr size_t window_count = 16;

int rank;
uint64_t next_number = 1; // of the next message; the same in both ranks

struct figures {
    std::vector<double> latency;   // microseconds, half a round trip
    std::vector<double> bandwidth; // MB/s
    uint64_t staged   = 0;         // bytes, in this rank
    uint64_t messages = 0;         // received in this rank
    uint64_t wrong    = 0;         // of these, with wrong bytes
};

// A kind of memory, used in the same way by both ranks.
struct side {
    explicit side(memory kind)
        : outgoing(kind,
                   window_count * 1024 + std::max(largest * 2, window_bytes)),
          incoming(kind, outgoing.size())
    {
    }

    void receive_is(size_t offset, size_t size, uint64_t number)
    {
        size_t difference = incoming.compare(offset, size, number);

        ++result.messages;
        if (difference != no_difference) {
            ++result.wrong;
            std::fprintf(stderr,
                         "rank %d: message %lu of %zu bytes, %s memory: "
                         "byte %zu is wrong\n",
                         rank, static_cast<unsigned long>(number), size,
                         name_of(incoming.kind()), difference);
        }
    }

    buffer outgoing;
    buffer incoming;
    figures result;
};

uint64_t copied()
{
    return gpu::copied_bytes();
}

// Sends one message each way. The answer is filled in beforehand, in another
// buffer, so that the measured time includes no filling or checking.
void ping_pong(side &at, size_t size, bool timed)
{
    const uint64_t ping = next_number++;
    const uint64_t pong = next_number++;
    const int peer      = 1 - rank;
    const int count     = static_cast<int>(size);

    at.outgoing.put(0, size, rank == 0 ? ping : pong);
    MPI_Barrier(MPI_COMM_WORLD);

    const uint64_t copied_before = copied();
    const double start           = MPI_Wtime();
    if (rank == 0) {
        MPI_Send(at.outgoing.at(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
    MPI_Recv(at.incoming.at(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    if (rank == 1) {
        MPI_Send(at.outgoing.at(), count, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
    const double elapsed = MPI_Wtime() - start;
    at.result.staged += copied() - copied_before;

    at.receive_is(0, size, rank == 0 ? pong : ping);
    if (timed) {
        at.result.latency.push_back(elapsed * 1e6 / 2);
    }
}

// Sends a window of concurrent messages to the other rank. Returns its
// bandwidth in MB/s.
double send_window(side &at, size_t size, size_t count)
{
    const int peer = 1 - rank;
    std::vector<MPI_Request> requests(count);

    for (size_t i = 0; i < count; ++i) {
        at.outgoing.put(i * size, size, next_number + i);
    }
    MPI_Barrier(MPI_COMM_WORLD);

    const uint64_t copied_before = copied();
    const double start           = MPI_Wtime();
    for (size_t i = 0; i < count; ++i) {
        MPI_Isend(at.outgoing.at(i * size), static_cast<int>(size), MPI_BYTE,
                  peer, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(static_cast<int>(count), requests.data(), MPI_STATUSES_IGNORE);
    MPI_Recv(nullptr, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    const double elapsed = MPI_Wtime() - start;
    at.result.staged += copied() - copied_before;
    next_number += count;
    return static_cast<double>(size * count) / elapsed / 1e6;
}

void receive_window(side &at, size_t size, size_t count)
{
    const int peer = 1 - rank;
    std::vector<MPI_Request> requests(count);

    const uint64_t copied_before = copied();
    for (size_t i = 0; i < count; ++i) {
        MPI_Irecv(at.incoming.at(i * size), static_cast<int>(size), MPI_BYTE,
                  peer, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Waitall(static_cast<int>(count), requests.data(), MPI_STATUSES_IGNORE);
    MPI_Send(nullptr, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
    at.result.staged += copied() - copied_before;

    for (size_t i = 0; i < count; ++i) {
        at.receive_is(i * size, size, next_number++);
    }
}

// Returns the bandwidth of a window in the given direction, in both ranks.
double window(side &at, size_t size, int sender)
{
    const size_t count =
        std::clamp<size_t>(window_bytes / size, 2, window_count);
    double bandwidth = 0;

    if (rank == sender) {
        bandwidth = send_window(at, size, count);
    } else {
        receive_window(at, size, count);
    }
    MPI_Bcast(&bandwidth, 1, MPI_DOUBLE, sender, MPI_COMM_WORLD);
    return bandwidth;
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Adds up the counters of both ranks, in rank 0.
void add_up(figures *counted)
{
    std::array<uint64_t, 3> mine = {counted->staged, counted->messages,
                                    counted->wrong};
    std::array<uint64_t, 3> all  = {};

    MPI_Reduce(mine.data(), all.data(), mine.size(), MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    counted->staged   = all[0];
    counted->messages = all[1];
    counted->wrong    = all[2];
}

void measure(side &device, side &host, size_t size)
{
    const int round_trips = size >= (4 << 20) ? 2 : size >= 32768 ? 8 : 50;

    device.result = host.result = figures();
    for (int i = 0; i <= round_trips; ++i) {
        ping_pong(host, size, i > 0); // the first turn connects and registers
        ping_pong(device, size, i > 0);
    }
    for (int i = 0; i < 4; ++i) {
        for (side *at : {&host, &device}) {
            at->result.bandwidth.push_back(window(*at, size, i % 2));
        }
    }
    add_up(&device.result);
    add_up(&host.result);
    if (rank == 0) {
        std::printf("size %zu", size);
        for (const side *at : {&device, &host}) {
            std::printf(" %s %.1f %.3f %lu", name_of(at->incoming.kind()),
                        median(at->result.latency),
                        median(at->result.bandwidth),
                        static_cast<unsigned long>(at->result.staged));
        }
        std::printf(" messages %lu wrong %lu\n",
                    static_cast<unsigned long>(device.result.messages +
                                               host.result.messages),
                    static_cast<unsigned long>(device.result.wrong +
                                               host.result.wrong));
        std::fflush(stdout);
    }
}

} // namespace

int main(int argc, char **argv)
{
    int size;

    const int gpus = gpu::count(); // opens libcuda before UCX looks for it
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2 || gpus == 0) {
        std::fprintf(stderr, "mpi_demo needs two ranks and a libcuda\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    gpu::use(rank % gpus);
    std::vector<size_t> sizes;

    for (int i = 1; i < argc; ++i) {
        sizes.push_back(
            std::min<size_t>(std::strtoul(argv[i], nullptr, 0), largest));
    }
    if (sizes.empty()) {
        sizes = {8,         512,     4 << 10, 32 << 10,
                 256 << 10, 1 << 20, 4 << 20, largest};
    }
    {
        side device(memory::device);
        side host(memory::host);

        // The path check copies, too: run it before anything is counted.
        ping_pong(device, 256 << 10, false);
        if (device.result.wrong != 0) {
            std::fprintf(stderr, "mpi_demo: the first message is wrong\n");
            MPI_Abort(MPI_COMM_WORLD, 3);
        }
        for (size_t bytes : sizes) {
            measure(device, host, bytes);
        }
    }
    finalize();
    return 0;
}
