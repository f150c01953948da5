// SPDX-License-Identifier: BSD-3-Clause
//
// The demo: two ranks exchange messages between device memory and between host
// memory, of the sizes in MPI_DEMO_SIZES. Rank 0 prints a line per size, from
// which test/mpi/demo makes a table:
//   size SIZE device LATENCY BANDWIDTH STAGED host LATENCY BANDWIDTH STAGED
//       messages COUNT wrong COUNT
// in bytes, microseconds, MB/s (10^6). STAGED counts the bytes that the GPU
// copied for UCX.
#include "job.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <sstream>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t largest      = 16 << 20;
constexpr size_t window_bytes = 32 << 20; // so that a stall matters little
constexpr size_t window_count = 16;

// A kind of memory, used in the same way by both ranks.
struct side {
    side(const job &part, memory kind)
        : in(part), outgoing(kind, std::max(largest * 2, window_bytes)),
          incoming(kind, outgoing.size())
    {
    }

    void send(size_t offset, size_t size, MPI_Request *request) const
    {
        MPI_Isend(outgoing.at(offset), static_cast<int>(size), MPI_BYTE,
                  in.peer(), in.tag, MPI_COMM_WORLD, request);
    }
    void receive(size_t offset, size_t size, MPI_Request *request) const
    {
        MPI_Irecv(incoming.at(offset), static_cast<int>(size), MPI_BYTE,
                  in.peer(), in.tag, MPI_COMM_WORLD, request);
    }

    job in; // with messages and copies of its own
    buffer outgoing, incoming;
    std::vector<double> latency;   // microseconds, half a round trip
    std::vector<double> bandwidth; // MB/s
};

// Sends one message each way. The answer is filled in beforehand, in another
// buffer, so that the measured time includes no filling or checking.
void ping_pong(side &at, size_t size, bool timed)
{
    const uint64_t ping = at.in.next_number(2), pong = ping + 1;
    const bool first = at.in.rank == 0;
    std::array<MPI_Request, 2> requests;

    at.outgoing.put(0, size, first ? ping : pong);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    {
        const job::copies counted(at.in);
        at.receive(0, size, &requests[0]);
        if (!first) {
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        }
        at.send(0, size, &requests[1]);
        MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
    }
    if (timed) {
        at.latency.push_back((MPI_Wtime() - start) * 1e6 / 2);
    }
    at.in.expect_message(at.incoming, 0, size, first ? pong : ping);
}

// Sends a window of concurrent messages to the other rank.
void window(side &at, size_t size, int sender)
{
    const size_t count =
        std::clamp<size_t>(window_bytes / size, 2, window_count);
    const uint64_t number = at.in.next_number(count);
    const bool sends      = at.in.rank == sender;
    std::vector<MPI_Request> requests(count);

    for (size_t i = 0; sends && i < count; ++i) {
        at.outgoing.put(i * size, size, number + i);
    }
    double elapsed = 0;
    {
        const job::copies counted(at.in);
        for (size_t i = 0; !sends && i < count; ++i) {
            at.receive(i * size, size, &requests[i]);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        for (size_t i = 0; sends && i < count; ++i) {
            at.send(i * size, size, &requests[i]);
        }
        MPI_Waitall(static_cast<int>(count), requests.data(),
                    MPI_STATUSES_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD); // the receiver has them all
        elapsed = MPI_Wtime() - start;
    }
    MPI_Bcast(&elapsed, 1, MPI_DOUBLE, sender, MPI_COMM_WORLD);
    at.bandwidth.push_back(static_cast<double>(size * count) / elapsed / 1e6);
    for (size_t i = 0; !sends && i < count; ++i) {
        at.in.expect_message(at.incoming, i * size, size, number + i);
    }
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// Adds up both ranks' counters, and prints the line of this size.
void report(std::array<side, 2> &sides, size_t size)
{
    // Bytes staged on each side, messages, wrong messages.
    std::array<uint64_t, 4> mine = {sides[0].in.staged, sides[1].in.staged};
    std::array<uint64_t, 4> all  = {};

    for (side &at : sides) {
        mine[2] += at.in.checked.messages;
        mine[3] += at.in.checked.wrong;
    }
    MPI_Reduce(mine.data(), all.data(), mine.size(), MPI_UINT64_T, MPI_SUM, 0,
               MPI_COMM_WORLD);
    if (sides[0].in.rank == 0) {
        std::printf("size %zu", size);
        for (size_t i = 0; i < 2; ++i) {
            std::printf(" %s %.1f %.3f %lu", name_of(sides[i].outgoing.kind()),
                        median(sides[i].latency), median(sides[i].bandwidth),
                        static_cast<unsigned long>(all[i]));
        }
        std::printf(" messages %lu wrong %lu\n",
                    static_cast<unsigned long>(all[2]),
                    static_cast<unsigned long>(all[3]));
        std::fflush(stdout);
    }
}

void run_size(job &in, std::array<side, 2> &sides, size_t size)
{
    const int round_trips = size >= (4 << 20) ? 2 : size >= 32768 ? 8 : 50;

    for (int i = 0; i <= round_trips; ++i) {
        for (side &at : sides) {
            ping_pong(at, size, i > 0); // the first turn registers
        }
    }
    for (int i = 0; i < 4; ++i) {
        for (side &at : sides) {
            window(at, size, i % 2);
        }
    }
    report(sides, size);
    for (side &at : sides) {
        in.join(at.in);
        at.in.checked = {};
        at.in.staged  = 0;
        at.latency.clear();
        at.bandwidth.clear();
    }
}

void run_demo(job &in, memory first, memory second)
{
    const char *set = std::getenv("MPI_DEMO_SIZES");
    std::istringstream sizes(
        set ? set : "8 512 4096 32768 262144 1048576 4194304 16777216");
    std::array<side, 2> sides = {side(in.for_thread(0), first),
                                 side(in.for_thread(1), second)};
    size_t size               = 0;

    while (sizes >> size) {
        run_size(in, sides, std::min(size, largest));
    }
}

} // namespace

void add_demo(case_list &cases)
{
    cases.add("demo", "the demo's messages", run_demo, memory::device,
              memory::host, staging::any);
}

} // namespace ucx_ib_dmabuf::test
