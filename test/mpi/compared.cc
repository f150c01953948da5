// SPDX-License-Identifier: BSD-3-Clause
#include "compared.h"
#include "pattern.h"
#include <algorithm>

namespace ucx_ib_dmabuf::test {
namespace {

// Draws different bytes in each rank and for each buffer.
void draw_bytes(job &in, std::vector<uint8_t> *bytes)
{
    const uint64_t number =
        in.next_number() + (static_cast<uint64_t>(in.rank) << 48);

    fill_pattern(bytes->data(), bytes->size(), number);
}

// Allocates on the current GPU, or on the next one.
std::unique_ptr<buffer> allocate(const job &in, memory kind, size_t length,
                                 bool next)
{
    if (next) {
        gpu::use((in.rank + 1) % gpu::count());
    }
    auto made = std::make_unique<buffer>(kind, length + 1);
    if (next) {
        gpu::use(in.rank % gpu::count());
    }
    return made;
}

void expect_equal(job &in, const buffer &found,
                  const std::vector<uint8_t> &expected, const char *which)
{
    const std::vector<uint8_t> bytes =
        read_memory(found.kind(), found.at(), expected.size());
    const auto wrong =
        std::mismatch(bytes.begin(), bytes.end(), expected.begin()).first;

    ++in.checked.messages;
    in.checked.bytes += bytes.size();
    in.checked.wrong += wrong != bytes.end();
    in.expect(wrong == bytes.end(),
              std::string(which) + ", " + std::to_string(bytes.size()) +
                  " bytes of " + name_of(found.kind()) + " memory: byte " +
                  std::to_string(wrong - bytes.begin()) +
                  " is not what it is in host memory");
}

} // namespace

void compare_with_host(job &in, const two_buffers &with, const call_on &call,
                       bool large, size_t own)
{
    std::vector<uint8_t> sent(with.sent), received(with.received);
    const auto send    = allocate(in, with.send, with.sent, false);
    const auto receive = allocate(in, with.receive, with.received, with.apart);

    draw_bytes(in, &sent);
    draw_bytes(in, &received);
    write_memory(send->kind(), send->at(), sent);
    write_memory(receive->kind(), receive->at(), received);
    call(sent.data(), received.data());

    const uint64_t before = gpu::copied_bytes();
    call(send->at(), receive->at());
    const uint64_t copied = gpu::copied_bytes() - before;
    if (large && copied > own) {
        in.staged += copied - own;
    }
    expect_equal(in, *send, sent, "what was sent");
    expect_equal(in, *receive, received, "what was received");
}

two_buffers same_kinds(const job &in, memory first, memory second)
{
    const memory mine = in.rank == 0 ? first : second;
    return {mine, mine, 0, 0, false};
}

two_buffers crossed_kinds(memory first, memory second)
{
    return {first, second, 0, 0, false};
}

} // namespace ucx_ib_dmabuf::test
