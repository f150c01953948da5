// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/gpu.h>
#include <span>

namespace ucx_ib_dmabuf::test {

using gpu::is_device;
using gpu::memory;
using gpu::name_of;

// The program's own copies.
void write_memory(memory kind, uint8_t *at, std::span<const uint8_t> bytes);
std::vector<uint8_t> read_memory(memory kind, const uint8_t *at, size_t length);

// The contents of messages: every byte depends on the message's number, its
// length and the byte's position. So a check finds a byte of another message,
// of another position, or of an earlier use of the buffer.
void put_message(memory kind, uint8_t *at, size_t length, uint64_t number);

constexpr size_t no_difference = SIZE_MAX;

// Returns the position of the first wrong byte, or no_difference.
size_t compare_message(memory kind, const uint8_t *at, size_t length,
                       uint64_t number);

// Memory for messages. Its release must succeed.
class buffer : public gpu::buffer {
public:
    buffer(memory kind, size_t length) : gpu::buffer(length, kind) {}
    ~buffer() { gpu::check(release(), "release"); }
    buffer(const buffer &)            = delete;
    buffer &operator=(const buffer &) = delete;

    void put(size_t offset, size_t length, uint64_t number)
    {
        put_message(kind(), at(offset), length, number);
    }
    size_t compare(size_t offset, size_t length, uint64_t number) const
    {
        return compare_message(kind(), at(offset), length, number);
    }
};

} // namespace ucx_ib_dmabuf::test
