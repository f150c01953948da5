// SPDX-License-Identifier: BSD-3-Clause
#include "pattern.h"
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

// The pattern is made of words of eight bytes; buffers may lie at any address.
constexpr size_t word_size = sizeof(uint64_t);

uint64_t seed_of(size_t length, uint64_t number)
{
    return mix(mix(number) ^ length);
}

} // namespace

void fill_pattern(void *data, size_t length, uint64_t number)
{
    const uint64_t seed = seed_of(length, number);
    auto *bytes         = static_cast<uint8_t *>(data);

    for (size_t i = 0; i < length; i += word_size) {
        const uint64_t word = mix(seed + i);
        std::memcpy(bytes + i, &word, std::min(word_size, length - i));
    }
}

size_t find_difference(const void *data, size_t length, uint64_t number)
{
    const uint64_t seed = seed_of(length, number);
    const auto *bytes   = static_cast<const uint8_t *>(data);

    for (size_t i = 0; i < length; i += word_size) {
        const uint64_t word = mix(seed + i);
        const size_t count  = std::min(word_size, length - i);
        uint8_t expected[word_size];

        if (!std::memcmp(bytes + i, &word, count)) {
            continue;
        }
        std::memcpy(expected, &word, word_size);
        return i +
               static_cast<size_t>(
                   std::mismatch(expected, expected + count, bytes + i).first -
                   expected);
    }
    return no_difference;
}

} // namespace ucx_ib_dmabuf::test
