// SPDX-License-Identifier: BSD-3-Clause
#include "job.h"
#include <algorithm>

namespace ucx_ib_dmabuf::test {

void job::expect(bool condition, const std::string &otherwise)
{
    if (!condition && failure.empty()) {
        failure = otherwise;
    }
}

void job::count_message(size_t length, bool right, const std::string &otherwise)
{
    ++checked.messages;
    checked.bytes += length;
    checked.wrong += !right;
    expect(right, otherwise);
}

void job::expect_message(memory kind, const uint8_t *data, size_t length,
                         uint64_t number)
{
    const size_t position = compare_message(kind, data, length, number);

    count_message(length, position == no_difference,
                  "message " + std::to_string(number) + " of " +
                      std::to_string(length) + " bytes, " + name_of(kind) +
                      " memory: byte " + std::to_string(position) +
                      " is wrong");
}

void job::run_part(const std::string &name, const std::function<void()> &part)
{
    const std::string before = failure;

    part();
    if (before.empty() && !failure.empty()) {
        failure = name + ": " + failure;
    }
}

void job::one_way(uint8_t *mine, memory kind, size_t length, int sender)
{
    const uint64_t number = next_number();
    const int count       = static_cast<int>(length);

    if (rank > 1) {
        return;
    }
    if (rank == sender) {
        put_message(kind, mine, length, number);
    }
    {
        const copies counted(*this, length);
        if (rank == sender) {
            MPI_Send(mine, count, MPI_BYTE, peer(), tag, MPI_COMM_WORLD);
        } else {
            MPI_Recv(mine, count, MPI_BYTE, sender, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    expect_message(kind, mine, length, number);
}

void job::exchange(uint8_t *mine, memory kind, size_t length)
{
    one_way(mine, kind, length, 0);
    one_way(mine, kind, length, 1);
}

job job::for_thread(int thread)
{
    job one;

    one.rank     = rank;
    one.size     = size;
    one.blocking = blocking;
    one.tag      = tag + 1 + thread;
    one.number_  = static_cast<uint64_t>(1 + thread) << 32;
    one.random.seed(random());
    return one;
}

void job::join(const job &thread)
{
    expect(thread.failure.empty(), thread.failure);
    checked.messages += thread.checked.messages;
    checked.bytes += thread.checked.bytes;
    checked.wrong += thread.checked.wrong;
}

job::copies::copies(job &counted_for, size_t length)
    : job_(counted_for), large_(length >= counted_for.blocking),
      before_(gpu::copied_bytes())
{
}

job::copies::~copies()
{
    if (large_) {
        job_.staged += gpu::copied_bytes() - before_;
    }
}

void bystanders::add(uint8_t *data, memory kind, size_t length)
{
    all_.push_back({data, kind, length, job_.next_number()});
    put_message(kind, data, length, all_.back().number);
}

void bystanders::expect_unchanged(const char *when) const
{
    for (const one &it : all_) {
        const size_t wrong =
            compare_message(it.kind, it.data, it.length, it.number);
        job_.expect(wrong == no_difference,
                    std::string(when) + ": memory beside the message changed");
    }
}

namespace {

// The same bytes in host memory and in memory of another kind, different in
// each rank.
struct compared_buffer {
    compared_buffer(job &in, memory kind, size_t length)
        : host(length), tested(kind, length + 1)
    {
        put_message(memory::host, host.data(), length,
                    in.next_number() + (static_cast<uint64_t>(in.rank) << 48));
        write_memory(kind, tested.at(), host);
    }
    void expect_equal(job &in, const char *which) const
    {
        const std::vector<uint8_t> bytes =
            read_memory(tested.kind(), tested.at(), host.size());
        const auto wrong =
            std::mismatch(bytes.begin(), bytes.end(), host.begin()).first;

        in.count_message(bytes.size(), wrong == bytes.end(),
                         std::string(which) + ", " +
                             std::to_string(bytes.size()) + " bytes of " +
                             name_of(tested.kind()) + " memory: byte " +
                             std::to_string(wrong - bytes.begin()) +
                             " is not what it is in host memory");
    }

    std::vector<uint8_t> host;
    buffer tested;
};

} // namespace

void compare_with_host(job &in, const two_buffers &with, const call_on &call,
                       bool large, size_t own)
{
    compared_buffer send(in, with.send, with.sent);
    if (with.apart) {
        gpu::use((in.rank + 1) % gpu::count());
    }
    compared_buffer receive(in, with.receive, with.received);
    if (with.apart) {
        gpu::use(in.rank % gpu::count());
    }

    call(send.host.data(), receive.host.data());
    const uint64_t before = gpu::copied_bytes();
    call(send.tested.at(), receive.tested.at());
    const uint64_t copied = gpu::copied_bytes() - before;
    if (large && copied > own) {
        in.staged += copied - own;
    }
    send.expect_equal(in, "the send buffer");
    receive.expect_equal(in, "the receive buffer");
}

} // namespace ucx_ib_dmabuf::test
