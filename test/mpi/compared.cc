// SPDX-License-Identifier: BSD-3-Clause
#include "compared.h"
#include "pattern.h"
#include <algorithm>
#include <cstring>

namespace ucx_ib_dmabuf::test {
namespace {

void write_bytes(const buffer &to, const std::vector<uint8_t> &bytes)
{
    if (bytes.empty()) {
        return;
    }
    if (is_device(to.kind())) {
        GPU_CALL(cuMemcpyHtoD, to.address(), bytes.data(), bytes.size());
    } else {
        std::memcpy(to.at(), bytes.data(), bytes.size());
    }
}

std::vector<uint8_t> bytes_of(const buffer &from, size_t length)
{
    std::vector<uint8_t> bytes(length);

    if (length == 0) {
        return bytes;
    }
    if (is_device(from.kind())) {
        GPU_CALL(cuMemcpyDtoH, bytes.data(), from.address(), length);
    } else {
        std::memcpy(bytes.data(), from.at(), length);
    }
    return bytes;
}

// Other bytes in each rank, and in each buffer.
std::vector<uint8_t> draw_bytes(job &in, size_t length)
{
    const uint64_t number =
        in.next_number() + (static_cast<uint64_t>(in.rank) << 48);
    std::vector<uint8_t> bytes(length);

    fill_pattern(bytes.data(), length, number);
    return bytes;
}

void expect_equal(job &in, const buffer &found,
                  const std::vector<uint8_t> &expected, const char *which)
{
    const std::vector<uint8_t> bytes = bytes_of(found, expected.size());
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
    std::vector<uint8_t> sent     = draw_bytes(in, with.sent);
    std::vector<uint8_t> received = draw_bytes(in, with.received);
    buffer send(with.send, with.sent + 1);
    buffer receive(with.receive, with.received + 1);

    write_bytes(send, sent);
    write_bytes(receive, received);
    call(sent.data(), received.data());

    const uint64_t before = gpu::copied_bytes();
    call(send.at(), receive.at());
    const uint64_t copied = gpu::copied_bytes() - before;
    if (large && copied > own) {
        in.staged += copied - own;
    }
    expect_equal(in, send, sent, "what was sent");
    expect_equal(in, receive, received, "what was received");
}

two_buffers same_kinds(const job &in, memory first, memory second)
{
    const memory mine = in.rank == 0 ? first : second;
    return {mine, mine, 0, 0};
}

two_buffers crossed_kinds(memory first, memory second)
{
    return {first, second, 0, 0};
}

} // namespace ucx_ib_dmabuf::test
