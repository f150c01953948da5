// SPDX-License-Identifier: BSD-3-Clause
#if defined(__x86_64__)

#include "code_write.h"
#include <cstring>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::ucm {
namespace {

constexpr size_t jump_size  = 5; // e9 disp32
constexpr size_t cache_line = 64;

// ThreadSanitizer has no shadow memory for code, as programs do not write it.
#define WRITES_CODE __attribute__((no_sanitize("thread")))

bool protect(const uint8_t *code, int protection)
{
    const auto page     = uintptr_t(sysconf(_SC_PAGESIZE));
    const uintptr_t low = uintptr_t(code) & ~(page - 1);
    const uintptr_t end =
        (uintptr_t(code) + jump_size + page - 1) & ~(page - 1);
    return mprotect(reinterpret_cast<void *>(low), end - low, protection) == 0;
}

// Makes all threads discard the code that they have fetched. Kernels before
// 4.16 cannot; processors seldom need it.
void synchronize_cores()
{
    if (syscall(SYS_membarrier,
                MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0,
                0) == 0) {
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0,
                0);
    }
}

// Replaces two bytes within one cache line if they equal `before`.
WRITES_CODE bool replace_pair(uint8_t *at, const uint8_t *before,
                              const uint8_t *after)
{
    uint16_t found, value;
    memcpy(&found, before, sizeof(found));
    memcpy(&value, after, sizeof(value));
    return __atomic_compare_exchange_n(reinterpret_cast<uint16_t *>(at), &found,
                                       value, false, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST);
}

// For a jump within 8 aligned bytes, as in every function that starts at a
// multiple of 16: one store.
WRITES_CODE bool store_aligned(uint8_t *code, const uint8_t *before,
                               const uint8_t *jump)
{
    const size_t offset = uintptr_t(code) % sizeof(uint64_t);
    auto *word          = reinterpret_cast<uint64_t *>(code - offset);
    uint64_t found      = __atomic_load_n(word, __ATOMIC_RELAXED), after;
    uint8_t *first      = reinterpret_cast<uint8_t *>(&after) + offset;

    do { // other tools may patch the bytes around it
        after = found;
        if (memcmp(first, before, jump_size) != 0) {
            return false;
        }
        memcpy(first, jump, jump_size);
    } while (!__atomic_compare_exchange_n(word, &found, after, false,
                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return true;
}

// Threads loop at the first two bytes until the other bytes are written.
WRITES_CODE bool store_in_steps(uint8_t *code, const uint8_t *before,
                                const uint8_t *jump)
{
    static const uint8_t jump_to_itself[2] = {0xeb, 0xfe};

    if ((memcmp(code, before, jump_size) != 0) ||
        !replace_pair(code, before, jump_to_itself)) {
        return false;
    }
    synchronize_cores();
    for (size_t i = sizeof(jump_to_itself); i < jump_size; ++i) {
        const_cast<volatile uint8_t *>(code)[i] = jump[i];
    }
    synchronize_cores();
    return replace_pair(code, jump_to_itself, jump);
}

} // namespace

const char *write_jump(void *function, const uint8_t *before,
                       const void *target)
{
    auto *code = static_cast<uint8_t *>(function);
    const auto distance =
        int32_t(static_cast<const uint8_t *>(target) - (code + jump_size));
    uint8_t jump[jump_size] = {0xe9};

    memcpy(jump + 1, &distance, sizeof(distance));
    if (uintptr_t(code) % cache_line == cache_line - 1) {
        return "it begins in the last byte of a cache line";
    }
    if (!protect(code, PROT_READ | PROT_WRITE | PROT_EXEC)) {
        return "its code cannot be written";
    }
    const size_t end = uintptr_t(code) % sizeof(uint64_t) + jump_size;
    const auto store =
        (end <= sizeof(uint64_t)) ? store_aligned : store_in_steps;
    const bool stored = store(code, before, jump);
    // If that fails the page stays writable, which is harmless.
    protect(code, PROT_READ | PROT_EXEC);
    return stored ? nullptr : "something else changed it meanwhile";
}

} // namespace ucx_ib_dmabuf::ucm

#endif
