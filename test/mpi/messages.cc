// SPDX-License-Identifier: BSD-3-Clause
//
// Messages from one rank to another: every pair of memory kinds, odd sizes and
// odd offsets; windows of concurrent messages, both directions at once,
// unexpected messages, messages to oneself; several GPUs in one process, and
// threads without a current context.
#include "job.h"
#include <algorithm>
#include <array>

namespace ucx_ib_dmabuf::test {
namespace {

// A case that exchanges messages of these lengths at these offsets.
case_function exchanges(const std::vector<size_t> &lengths,
                        const std::vector<size_t> &offsets)
{
    return [=](job &in, memory first, memory second) {
        const memory kind = in.mine_of(first, second);
        buffer mine(kind, std::ranges::max(lengths) + 4096);

        for (size_t length : lengths) {
            for (size_t offset : offsets) {
                in.exchange(mine.at(offset), kind, length);
            }
        }
    };
}

// Many pieces of one allocation, at offsets that the ranks draw alike.
void run_pieces(job &in, memory first, memory second)
{
    constexpr size_t length = 24 << 20;
    const memory kind       = in.mine_of(first, second);
    buffer mine(kind, length);

    for (int i = 0; i < 24; ++i) {
        const size_t size   = rendezvous + in.random() % (512 << 10);
        const size_t offset = in.random() % (length - size);
        in.exchange(mine.at(offset), kind, size);
    }
}

constexpr size_t spacing = (1 << 20) + 4096;

// Messages of mixed sizes, side by side in one buffer.
class message_row {
public:
    message_row(job &in, size_t count)
    {
        for (size_t i = 0; i < count; ++i) {
            const size_t length =
                rendezvous + in.random() % (1 << 20) * (i % 2);
            const size_t offset = i * spacing + in.random() % 64;
            all_.push_back(
                {offset, std::min<size_t>(length, 1 << 20), in.next_number(2)});
        }
    }

    void put(const job &in, buffer &outgoing) const
    {
        for (const message &one : all_) {
            outgoing.put(one.offset, one.length,
                         one.number + static_cast<uint64_t>(in.rank));
        }
    }
    void expect(job &in, const buffer &incoming, int sender) const
    {
        for (const message &one : all_) {
            in.expect_message(incoming, one.offset, one.length,
                              one.number + static_cast<uint64_t>(sender));
        }
    }
    void send(buffer &from, size_t i, int peer, MPI_Request *request) const
    {
        MPI_Isend(from.at(all_[i].offset), count(i), MPI_BYTE, peer,
                  static_cast<int>(i), MPI_COMM_WORLD, request);
    }
    void receive(buffer &into, size_t i, int peer, MPI_Request *request) const
    {
        MPI_Irecv(into.at(all_[i].offset), count(i), MPI_BYTE, peer,
                  static_cast<int>(i), MPI_COMM_WORLD, request);
    }
    int count(size_t i) const { return static_cast<int>(all_[i].length); }

private:
    struct message {
        size_t offset;
        size_t length;
        uint64_t number; // of rank 0's message; rank 1's is one more
    };
    std::vector<message> all_;
};

// Windows in both directions at the same time.
void run_window(job &in, memory first, memory second)
{
    constexpr size_t count = 8;
    const memory kind      = in.mine_of(first, second);
    buffer outgoing(kind, count * spacing), incoming(kind, count * spacing);

    for (int round = 0; round < 3; ++round) {
        const message_row row(in, count);
        std::array<MPI_Request, 2 * count> requests;

        row.put(in, outgoing);
        MPI_Barrier(MPI_COMM_WORLD);
        {
            const job::copies counted(in);
            for (size_t i = 0; i < count; ++i) {
                row.receive(incoming, i, in.peer(), &requests[2 * i]);
                row.send(outgoing, i, in.peer(), &requests[2 * i + 1]);
            }
            MPI_Waitall(requests.size(), requests.data(), MPI_STATUSES_IGNORE);
        }
        row.expect(in, incoming, in.peer());
    }
}

// Rank 1 probes the messages before it posts the receives.
void run_unexpected(job &in, memory first, memory second)
{
    constexpr size_t count = 4;
    buffer data(in.mine_of(first, second), count * spacing);
    const message_row row(in, count);
    std::array<MPI_Request, count> requests;

    if (in.rank == 0) {
        row.put(in, data);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    {
        const job::copies counted(in);
        for (size_t i = 0; i < count; ++i) {
            if (in.rank == 0) {
                row.send(data, i, 1, &requests[i]);
                continue;
            }
            MPI_Status status;
            int length = 0;
            MPI_Probe(0, static_cast<int>(i), MPI_COMM_WORLD, &status);
            MPI_Get_count(&status, MPI_BYTE, &length);
            in.expect(length == row.count(i), "MPI_Probe gave another length");
            row.receive(data, i, 0, &requests[i]);
        }
        MPI_Waitall(requests.size(), requests.data(), MPI_STATUSES_IGNORE);
    }
    if (in.rank == 1) {
        row.expect(in, data, 0);
    }
}

// UCX copies these messages by its own means, also from host to host.
void run_with_oneself(job &in, memory first, memory second)
{
    constexpr size_t count = 4;
    buffer outgoing(first, count * spacing), incoming(second, count * spacing);
    const message_row row(in, count);
    std::array<MPI_Request, 2 * count> requests;

    row.put(in, outgoing);
    for (size_t i = 0; i < count; ++i) {
        row.receive(incoming, i, in.rank, &requests[2 * i]);
        row.send(outgoing, i, in.rank, &requests[2 * i + 1]);
    }
    MPI_Waitall(requests.size(), requests.data(), MPI_STATUSES_IGNORE);
    row.expect(in, incoming, in.rank);
}

// Sends from every GPU of rank 0 to every GPU of rank 1. In half of the cases
// the current context is not that of the message's GPU.
void run_two_devices(job &in, memory kind, memory)
{
    constexpr size_t length = 1 << 20;
    std::vector<std::unique_ptr<buffer>> buffers;
    const int devices = gpu::count();

    in.expect(devices >= 2, "there is only one GPU");
    for (int i = 0; i < devices; ++i) {
        gpu::use(i);
        buffers.push_back(std::make_unique<buffer>(kind, length));
        // The plug-in checks the path of each GPU before its first message, by
        // copies, which are not counted.
        const uint64_t staged = in.staged;
        in.one_way(buffers.back()->at(), kind, length, 0);
        in.staged = staged;
    }
    for (int current = 0; current < devices; ++current) {
        gpu::use(current);
        for (auto &outgoing : buffers) {
            for (auto &incoming : buffers) {
                in.one_way((in.rank == 0 ? outgoing : incoming)->at(), kind,
                           length, 0);
            }
        }
    }
    for (int i = 0; i < devices; ++i) {
        gpu::use(i);
        buffers[static_cast<size_t>(i)].reset();
    }
    gpu::use(in.rank % devices);
}

// Rank 0 sends and rank 1 receives, both without a current context.
void run_no_context(job &in, memory, memory)
{
    constexpr size_t length = 1 << 20;
    buffer data(memory::device, length);
    const uint64_t number = in.next_number();

    if (in.rank == 0) {
        data.put(0, length, number);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    GPU_CALL(cuCtxSetCurrent, nullptr);
    {
        const job::copies counted(in);
        if (in.rank == 0) {
            MPI_Send(data.at(), length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        } else if (in.rank == 1) {
            MPI_Recv(data.at(), length, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    gpu::use(in.rank % gpu::count());
    if (in.rank == 1) {
        in.expect_message(data, 0, length, number);
    }
}

} // namespace

void add_messages(case_list &cases)
{
    const memory host = memory::host, device = memory::device;
    // UCX may copy small messages; they only have to arrive.
    const auto small = exchanges({0, 1, 8, 1000, 4097, 8191}, {0, 13});
    const auto large = exchanges({rendezvous, rendezvous + 1, 262147, 1 << 20,
                                  (1 << 20) + 3, (4 << 20) - 1},
                                 {0, 4093});
    // UCX assigns the pieces of a message to its rails in turn, and shortens
    // the first piece if the buffer is not aligned to 512 bytes. Then one rail
    // sends the message's head and tail, another its middle.
    const auto odd =
        exchanges({1 << 20, (1 << 20) - 255}, {0, 256, 1, 767, 768});
    // For tests of other things than messages.
    const auto few = exchanges({8, 4097, (2 << 20) - 3}, {1});

    cases.add("host", "small messages", small, host, staging::never);
    cases.add("host", "large messages", large, host, staging::never);
    for (memory first : {host, device}) {
        for (memory second : {host, device}) {
            const bool on_host = first == host && second == host;
            cases.add("messages", "small messages", small, first, second,
                      staging::any);
            cases.add("messages", "large messages", large, first, second,
                      on_host ? staging::never : staging::follows);
            cases.add("oneself", "messages to oneself", run_with_oneself, first,
                      second, staging::any);
        }
        cases.add("rails", "messages at odd places", odd, first, device);
        cases.add("brief", "messages", few, first, device);
    }
    cases.add("messages", "pieces of one large allocation", run_pieces);
    cases.add("vmm", "large messages", large, memory::vmm);
    cases.add("pools", "large messages", large, memory::pool);
    for (memory kind : {memory::variable, memory::opened, memory::imported,
                        memory::incapable}) {
        // The driver never exports the first two.
        const char *group = (kind <= memory::opened) ? "variables" : "others";
        cases.add(group, "small messages", small, kind, staging::any);
        cases.add(group, "large messages", large, kind, staging::any);
    }
    // These belong to the host, too, and UCX may move them by any means.
    cases.add("kinds", "large messages", large, memory::managed, staging::any);
    cases.add("kinds", "large messages", large, memory::pinned, staging::any);

    const std::pair<const char *, case_function> patterns[] = {
        {"windows of messages in flight", run_window},
        {"messages before they are expected", run_unexpected}};
    // Several messages at once in one allocation are the hardest to stage.
    cases.add("brief", patterns[0].first, run_window);
    for (const auto &[name, run] : patterns) {
        cases.add("patterns", name, run);
        cases.add("patterns", name, run, host, device);
        cases.add("host", name, run, host, staging::never);
    }
    cases.add("devices", "two GPUs in one process", run_two_devices);
    cases.add("vmm", "two GPUs in one process", run_two_devices, memory::vmm);
    cases.add("context", "no current context", run_no_context);
}

} // namespace ucx_ib_dmabuf::test
