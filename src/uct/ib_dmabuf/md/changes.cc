// SPDX-License-Identifier: BSD-3-Clause
#include "changes.h"
#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ucx_ib_dmabuf {
namespace {

// memcmp goes through a block many times faster than a loop over its bytes.
constexpr size_t block = 1024;

size_t first_change(const char *now, const char *before, size_t from,
                    size_t length)
{
    while (from < length) {
        const size_t size = std::min(block, length - from);
        if (memcmp(now + from, before + from, size) != 0) {
            return static_cast<size_t>(
                std::mismatch(now + from, now + from + size, before + from)
                    .first -
                now);
        }
        from += size;
    }
    return length;
}

// Behind the last change in [begin, end); begin if there is none.
size_t end_of_changes(const char *now, const char *before, size_t begin,
                      size_t end)
{
    while ((end > begin) && (now[end - 1] == before[end - 1])) {
        --end;
    }
    return end;
}

uint64_t word_at(const char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof(word));
    return word;
}

// All bits of the bytes that are not zero.
uint64_t mask_of_bytes(uint64_t word)
{
    constexpr uint64_t low = 0x7f7f7f7f7f7f7f7f;
    const uint64_t high    = (((word & low) + low) | word) & ~low;

    return (high << 1) - (high >> 7);
}

} // namespace

changed_run find_changes(const char *now, const char *before, size_t from,
                         size_t length)
{
    changed_run run{first_change(now, before, from, length), 0};
    size_t next = run.begin;

    run.end = run.begin;
    // One change ahead at a time: where all of a block changed, at its end.
    while (next - run.end <= max_unchanged_gap && next < length) {
        const size_t end = std::min(next + block, length);
        run.end          = end_of_changes(now, before, next, end);
        next             = first_change(now, before, end, length);
    }
    return run;
}

void merge_changes(char *target, const char *now, const char *before,
                   size_t length)
{
    constexpr size_t size = sizeof(uint64_t);
    size_t i              = 0;

    for (; i + size <= length; i += size) {
        const uint64_t is   = word_at(now + i);
        const uint64_t mask = mask_of_bytes(is ^ word_at(before + i));
        const uint64_t word = (word_at(target + i) & ~mask) | (is & mask);
        memcpy(target + i, &word, size);
    }
    for (; i < length; ++i) {
        if (now[i] != before[i]) {
            target[i] = now[i];
        }
    }
}

} // namespace ucx_ib_dmabuf
