// SPDX-License-Identifier: BSD-3-Clause
#include "buffer.h"
#include <algorithm>
#include <cstring>

namespace ucx_ib_dmabuf::test {
namespace {

// splitmix64: neighbouring inputs yield unrelated words.
uint64_t mix(uint64_t value)
{
    value += 0x9e3779b97f4a7c15;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

// Calls see(position, word, count) for each word of the message; the last one
// may have fewer bytes. Stops when the call returns false. Buffers may lie at
// any address.
template <typename See>
void each_word(size_t length, uint64_t number, const See &see)
{
    const uint64_t seed = mix(mix(number) ^ length);

    for (size_t i = 0; i < length; i += sizeof(seed)) {
        if (!see(i, mix(seed + i), std::min(sizeof(seed), length - i))) {
            return;
        }
    }
}

void fill(uint8_t *bytes, size_t length, uint64_t number)
{
    each_word(length, number, [=](size_t at, uint64_t word, size_t count) {
        std::memcpy(bytes + at, &word, count);
        return true;
    });
}

size_t find_difference(const uint8_t *bytes, size_t length, uint64_t number)
{
    size_t found = no_difference;

    each_word(length, number, [&](size_t at, uint64_t word, size_t count) {
        if (std::memcmp(bytes + at, &word, count) == 0) {
            return true;
        }
        const auto *expected = reinterpret_cast<const uint8_t *>(&word);
        found                = at;
        while (bytes[found] == expected[found - at]) {
            ++found;
        }
        return false;
    });
    return found;
}

} // namespace

void write_memory(memory kind, uint8_t *at, std::span<const uint8_t> bytes)
{
    if (!is_device(kind)) {
        std::copy(bytes.begin(), bytes.end(), at);
    } else if (!bytes.empty()) {
        GPU_CALL(cuMemcpyHtoD, reinterpret_cast<CUdeviceptr>(at), bytes.data(),
                 bytes.size());
    }
}

std::vector<uint8_t> read_memory(memory kind, const uint8_t *at, size_t length)
{
    std::vector<uint8_t> bytes(length);

    if (!is_device(kind)) {
        std::copy_n(at, length, bytes.begin());
    } else if (length > 0) {
        GPU_CALL(cuMemcpyDtoH, bytes.data(), reinterpret_cast<CUdeviceptr>(at),
                 length);
    }
    return bytes;
}

void put_message(memory kind, uint8_t *at, size_t length, uint64_t number)
{
    std::vector<uint8_t> bytes(length);

    fill(bytes.data(), length, number);
    write_memory(kind, at, bytes);
}

size_t compare_message(memory kind, const uint8_t *at, size_t length,
                       uint64_t number)
{
    return find_difference(read_memory(kind, at, length).data(), length,
                           number);
}

} // namespace ucx_ib_dmabuf::test
