// SPDX-License-Identifier: BSD-3-Clause
#include "buffer.h"
#include "pattern.h"
#include <algorithm>

namespace ucx_ib_dmabuf::test {

void write_memory(memory kind, uint8_t *at, std::span<const uint8_t> bytes)
{
    if (!is_device(kind)) {
        std::copy(bytes.begin(), bytes.end(), at);
    } else if (!bytes.empty()) {
        GPU_CALL(cuMemcpyHtoD, as_pointer(at), bytes.data(), bytes.size());
    }
}

std::vector<uint8_t> read_memory(memory kind, const uint8_t *at, size_t length)
{
    std::vector<uint8_t> bytes(length);

    if (!is_device(kind)) {
        std::copy_n(at, length, bytes.begin());
    } else if (length > 0) {
        GPU_CALL(cuMemcpyDtoH, bytes.data(), as_pointer(at), length);
    }
    return bytes;
}

void put_message(memory kind, uint8_t *at, size_t length, uint64_t number)
{
    if (!is_device(kind)) {
        fill_pattern(at, length, number);
    } else {
        std::vector<uint8_t> bytes(length);
        fill_pattern(bytes.data(), length, number);
        write_memory(kind, at, bytes);
    }
}

size_t compare_message(memory kind, const uint8_t *at, size_t length,
                       uint64_t number)
{
    if (!is_device(kind)) {
        return find_difference(at, length, number);
    }
    return find_difference(read_memory(kind, at, length).data(), length,
                           number);
}

} // namespace ucx_ib_dmabuf::test
