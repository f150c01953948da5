// SPDX-License-Identifier: BSD-3-Clause
#include "buffer.h"
#include "pattern.h"

namespace ucx_ib_dmabuf::test {

void put_message(memory kind, uint8_t *at, size_t length, uint64_t number)
{
    if (!is_device(kind)) {
        fill_pattern(at, length, number);
    } else if (length > 0) {
        std::vector<uint8_t> bytes(length);
        fill_pattern(bytes.data(), length, number);
        GPU_CALL(cuMemcpyHtoD, as_pointer(at), bytes.data(), length);
    }
}

size_t compare_message(memory kind, const uint8_t *at, size_t length,
                       uint64_t number)
{
    if (!is_device(kind)) {
        return find_difference(at, length, number);
    }
    if (length == 0) {
        return no_difference;
    }
    std::vector<uint8_t> bytes(length);
    GPU_CALL(cuMemcpyDtoH, bytes.data(), as_pointer(at), length);
    return find_difference(bytes.data(), length, number);
}

} // namespace ucx_ib_dmabuf::test
