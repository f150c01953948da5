// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// What the messages say: every byte depends on the number of the message, on
// its length and on the byte's place in it, so that a byte of another message,
// of another place or of an earlier use of the buffer is seen.
namespace ucx_ib_dmabuf::test {

constexpr size_t no_difference = SIZE_MAX;

void fill_pattern(void *data, size_t length, uint64_t number);

// Position of the first byte that is not the message's, or no_difference.
size_t find_difference(const void *data, size_t length, uint64_t number);

// Of these bytes after those that `sum` is the checksum of, 0 at first.
uint64_t checksum(const void *data, size_t length, uint64_t sum);

} // namespace ucx_ib_dmabuf::test
