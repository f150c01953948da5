// SPDX-License-Identifier: BSD-3-Clause
//
// Other ways of sending from one rank to another: windows of concurrent
// messages, both directions at once, unexpected messages.
#include "exchange.h"
#include <array>
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

struct piece {
    size_t offset;
    size_t length;
    uint64_t number; // of rank 0's message; rank 1's is one more
};

constexpr size_t spacing = (1 << 20) + 4096;

// Draws messages of mixed sizes, side by side in one buffer.
std::vector<piece> draw_pieces(job &in, size_t count)
{
    std::vector<piece> pieces;

    for (size_t i = 0; i < count; ++i) {
        const size_t length = rendezvous + in.random() % (1 << 20) * (i % 2);
        const size_t offset = i * spacing + in.random() % 64;
        pieces.push_back(
            {offset, std::min<size_t>(length, 1 << 20), in.next_number()});
        in.next_number();
    }
    return pieces;
}

void put_all(const job &in, buffer &outgoing, const std::vector<piece> &pieces)
{
    for (const piece &one : pieces) {
        outgoing.put(one.offset, one.length,
                     one.number + static_cast<uint64_t>(in.rank));
    }
}

void expect_all(job &in, const buffer &incoming,
                const std::vector<piece> &pieces)
{
    for (const piece &one : pieces) {
        in.expect_message(incoming, one.offset, one.length,
                          one.number + static_cast<uint64_t>(1 - in.rank));
    }
}

int count_of(const piece &one)
{
    return static_cast<int>(one.length);
}

// Windows in both directions at the same time.
void run_window(job &in, memory first, memory second)
{
    constexpr size_t count = 8;
    const memory kind      = mine_of(in, first, second);
    buffer outgoing(kind, count * spacing), incoming(kind, count * spacing);

    for (int round = 0; round < 3; ++round) {
        const auto pieces = draw_pieces(in, count);
        const int peer    = 1 - in.rank;
        std::array<MPI_Request, 2 * count> requests;

        put_all(in, outgoing, pieces);
        MPI_Barrier(MPI_COMM_WORLD);
        {
            job::copies counted(in);
            for (size_t i = 0; i < count; ++i) {
                const piece &one = pieces[i];
                MPI_Irecv(incoming.at(one.offset), count_of(one), MPI_BYTE,
                          peer, static_cast<int>(i), MPI_COMM_WORLD,
                          &requests[2 * i]);
                MPI_Isend(outgoing.at(one.offset), count_of(one), MPI_BYTE,
                          peer, static_cast<int>(i), MPI_COMM_WORLD,
                          &requests[2 * i + 1]);
            }
            MPI_Waitall(requests.size(), requests.data(), MPI_STATUSES_IGNORE);
        }
        expect_all(in, incoming, pieces);
    }
}

// Rank 1 probes the messages before it posts the receives.
void run_unexpected(job &in, memory first, memory second)
{
    const memory kind = mine_of(in, first, second);
    buffer data(kind, 4 * spacing);
    const auto pieces = draw_pieces(in, 4);
    std::array<MPI_Request, 4> requests;

    if (in.rank == 0) {
        put_all(in, data, pieces);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    {
        job::copies counted(in);
        for (int i = 0; i < 4; ++i) {
            const piece &one = pieces[static_cast<size_t>(i)];
            if (in.rank == 0) {
                MPI_Isend(data.at(one.offset), count_of(one), MPI_BYTE, 1, i,
                          MPI_COMM_WORLD, &requests[static_cast<size_t>(i)]);
            } else {
                MPI_Status status;
                int count = 0;
                MPI_Probe(0, i, MPI_COMM_WORLD, &status);
                MPI_Get_count(&status, MPI_BYTE, &count);
                in.expect(count == count_of(one),
                          "MPI_Probe gave another length");
                MPI_Irecv(data.at(one.offset), count, MPI_BYTE, 0, i,
                          MPI_COMM_WORLD, &requests[static_cast<size_t>(i)]);
            }
        }
        MPI_Waitall(requests.size(), requests.data(), MPI_STATUSES_IGNORE);
    }
    if (in.rank == 1) {
        expect_all(in, data, pieces);
    }
}

// UCX copies these messages by its own means, also from host to host.
void run_with_oneself(job &in, memory first, memory second)
{
    buffer outgoing(first, 4 * spacing), incoming(second, 4 * spacing);

    for (const piece &one : draw_pieces(in, 4)) {
        outgoing.put(one.offset, one.length, one.number);
        MPI_Sendrecv(outgoing.at(one.offset), count_of(one), MPI_BYTE, in.rank,
                     0, incoming.at(one.offset), count_of(one), MPI_BYTE,
                     in.rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        in.expect_message(incoming, one.offset, one.length, one.number);
    }
}

struct way {
    const char *name;
    void (*run)(job &, memory, memory);
};

// For cases of two ranks.
template <void (*run)(job &, memory, memory)>
void with_two(job &in, memory first, memory second)
{
    if (in.rank < 2 && in.size == 2) {
        run(in, first, second);
    } else {
        in.expect(false, "this case takes two ranks");
    }
}

} // namespace

void add_patterns(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const way ways[] = {
        {"windows of messages in flight", with_two<run_window>},
        {"messages before they are expected", with_two<run_unexpected>},
    };

    // Several messages at once in one allocation are the hardest to stage.
    cases->push_back(
        {"brief", ways[0].name, ways[0].run, device, device, staging::follows});
    for (const memory from : {host, device}) {
        for (const memory to : {host, device}) {
            cases->push_back({"oneself",
                              std::string("messages to oneself, ") +
                                  name_of(from) + " to " + name_of(to),
                              run_with_oneself, from, to, staging::any});
        }
    }
    for (const way &one : ways) {
        const std::string name = one.name;
        cases->push_back({"patterns", name + ", device to device", one.run,
                          device, device, staging::follows});
        cases->push_back({"patterns", name + ", host and device", one.run, host,
                          device, staging::follows});
        cases->push_back({"host", name + ", host to host", one.run, host, host,
                          staging::never});
    }
}

} // namespace ucx_ib_dmabuf::test
