// SPDX-License-Identifier: BSD-3-Clause
#include "buffer.h"
#include "pattern.h"

namespace ucx_ib_dmabuf::test {
namespace {

std::vector<uint8_t> device_bytes(const uint8_t *at, size_t length)
{
    std::vector<uint8_t> bytes(length);
    GPU_CALL(cuMemcpyDtoH, bytes.data(), as_pointer(at), length);
    return bytes;
}

} // namespace

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
    return find_difference(device_bytes(at, length).data(), length, number);
}

uint64_t buffer::checksum(size_t offset, size_t length, uint64_t sum) const
{
    if (!is_device(kind())) {
        return test::checksum(at(offset), length, sum);
    }
    return test::checksum(device_bytes(at(offset), length).data(), length, sum);
}

} // namespace ucx_ib_dmabuf::test
