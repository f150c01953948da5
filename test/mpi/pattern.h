// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// The contents of messages: every byte depends on the message's number, its
// length and the byte's position. So a check finds a byte of another message,
// of another position, or of an earlier use of the buffer.
namespace ucx_ib_dmabuf::test {

constexpr size_t no_difference = SIZE_MAX;

void fill_pattern(void *data, size_t length, uint64_t number);

// Returns the position of the first wrong byte, or no_difference.
size_t find_difference(const void *data, size_t length, uint64_t number);

} // namespace ucx_ib_dmabuf::test
