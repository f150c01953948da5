// SPDX-License-Identifier: BSD-3-Clause
#include "code_patch.h"
#include "code_arena.h"
#include "prologue_x86_64.h"
#include <cstring>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::ucm {

#if defined(__x86_64__)

namespace {

constexpr size_t jump_near     = 5;  // e9 disp32
constexpr size_t jump_indirect = 14; // ff 25 00000000, address
constexpr size_t longest_patch = 16; // UCM's have 13 bytes, others' 14 or 16
constexpr size_t moved_code    = 64;
constexpr size_t cache_line    = 64;

// ThreadSanitizer has no shadow memory for code, as programs do not write it.
#define WRITES_CODE __attribute__((no_sanitize("thread")))

bool protect(const uint8_t *code, int protection)
{
    const auto page     = uintptr_t(sysconf(_SC_PAGESIZE));
    const uintptr_t low = uintptr_t(code) & ~(page - 1);
    const uintptr_t end =
        (uintptr_t(code) + jump_near + page - 1) & ~(page - 1);
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
    auto found       = read_operand<uint16_t>(before);
    const auto value = read_operand<uint16_t>(after);
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
        if (memcmp(first, before, jump_near) != 0) {
            return false;
        }
        memcpy(first, jump, jump_near);
    } while (!__atomic_compare_exchange_n(word, &found, after, false,
                                          __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    return true;
}

// UCX writes the same first.
constexpr uint8_t jump_to_itself[2] = {0xeb, 0xfe};

// Threads loop at the first two bytes until the other bytes are written.
WRITES_CODE bool store_in_steps(uint8_t *code, const uint8_t *before,
                                const uint8_t *jump)
{
    if ((memcmp(code, before, jump_near) != 0) ||
        !replace_pair(code, before, jump_to_itself)) {
        return false;
    }
    synchronize_cores();
    for (size_t i = sizeof(jump_to_itself); i < jump_near; ++i) {
        const_cast<volatile uint8_t *>(code)[i] = jump[i];
    }
    synchronize_cores();
    return replace_pair(code, jump_to_itself, jump);
}

// Replaces the 5 bytes `before` at the start of a function by a jump to a
// target within 2 GiB, while other threads run it. They see the old
// instructions or the jump, never a mixture. Returns nullptr, or why nothing
// was changed.
const char *write_jump(void *function, const uint8_t *before,
                       const void *target)
{
    auto *code = static_cast<uint8_t *>(function);
    const auto distance =
        int32_t(static_cast<const uint8_t *>(target) - (code + jump_near));
    uint8_t jump[jump_near] = {0xe9};

    memcpy(jump + 1, &distance, sizeof(distance));
    if (uintptr_t(code) % cache_line == cache_line - 1) {
        return "it begins in the last byte of a cache line";
    }
    if (!protect(code, PROT_READ | PROT_WRITE | PROT_EXEC)) {
        return "its code cannot be written";
    }
    const size_t end = uintptr_t(code) % sizeof(uint64_t) + jump_near;
    const auto store =
        (end <= sizeof(uint64_t)) ? store_aligned : store_in_steps;
    const bool stored = store(code, before, jump);
    // If that fails the page stays writable, which is harmless.
    protect(code, PROT_READ | PROT_EXEC);
    return stored ? nullptr : "something else changed it meanwhile";
}

uint8_t *write_far_jump(uint8_t *at, const void *target)
{
    static const uint8_t opcode[6] = {0xff, 0x25};
    memcpy(at, opcode, sizeof(opcode));
    memcpy(at + sizeof(opcode), &target, sizeof(target));
    return at + jump_indirect;
}

// mov $address, %rax; jmp *%rax, or the same by %r11.
bool jumps_by_register(const uint8_t *p)
{
    return ((p[0] == 0x48) && (p[1] == 0xb8) && (p[10] == 0xff) &&
            (p[11] == 0xe0)) ||
           ((p[0] == 0x49) && (p[1] == 0xbb) && (p[10] == 0x41) &&
            (p[11] == 0xff) && (p[12] == 0xe3));
}

// Returns the jump's offset: behind a comparison at the start, which UCX knows
// from the driver's functions (ucm/bistro/bistro_x86_64.c). It changes only
// flags and is copied, too. So uprobes work. They overwrite the first byte with
// a breakpoint, run the file's first instruction elsewhere, continue behind it,
// and finally restore the file's byte.
size_t jump_offset(const uint8_t *p)
{
    const bool compares = ((p[0] == 0x81) || (p[0] == 0xcc)) && (p[1] == 0x3d);
    return compares ? 10 : 0; // cmpl $immediate, displacement(%rip)
}

} // namespace

const char *patch_function(void *function, void *hook,
                           std::atomic<void *> &original)
{
    static code_arena arena;
    const size_t size = jump_indirect + moved_code + jump_indirect;
    prologue_copy copy;

    uint8_t *stub = arena.allocate(function, size);
    if (stub == nullptr) {
        return "no executable memory near it";
    }
    uint8_t *moved = write_far_jump(stub, hook);
    auto *code     = static_cast<uint8_t *>(function);
    uint8_t *place = code + jump_offset(code);
    uint8_t before[jump_near];
    memcpy(before, place, sizeof(before));
    // Another UCX may patch over this later and need more bytes.
    const char *error = copy_prologue(code, size_t(place - code) + jump_near,
                                      longest_patch, moved, moved_code, copy);
    if (error != nullptr) {
        return error;
    }
    write_far_jump(moved + copy.to_length, code + copy.from_length);

    original.store(moved, std::memory_order_release);
    return write_jump(place, before, stub);
}

bool begins_with_jump(const void *function)
{
    const auto *p = static_cast<const uint8_t *>(function);
    p += jump_offset(p);
    // A patch that is being written.
    const bool is_written =
        memcmp(p, jump_to_itself, sizeof(jump_to_itself)) == 0;
    return (p[0] == 0xe9) || jumps_by_register(p) || is_written;
}

const void *patched_target(const void *function)
{
    const auto *p      = static_cast<const uint8_t *>(function);
    const void *target = nullptr;
    p += jump_offset(p);

    for (int hops = 0; hops < 4; ++hops) {
        if (p[0] == 0xe9) {
            target = p + jump_near + read_operand<int32_t>(p + 1);
        } else if (jumps_by_register(p)) {
            target = read_operand<const void *>(p + 2);
        } else if ((hops > 0) && (p[0] == 0xff) && (p[1] == 0x25)) {
            target = read_operand<const void *>(p + 6 +
                                                read_operand<int32_t>(p + 2));
        } else {
            break;
        }
        p = static_cast<const uint8_t *>(target);
    }
    return target;
}

#else

const char *patch_function(void *, void *, std::atomic<void *> &)
{
    // On other processors UCM cannot call the original of a patched function.
    return "functions cannot be patched on this processor";
}

bool begins_with_jump(const void *)
{
    return false;
}

const void *patched_target(const void *)
{
    return nullptr;
}

#endif

namespace {

// A function to test patching with. A call of a CUDA function may release
// memory if it is not hooked, and tools report calls that fail.
__attribute__((noinline, aligned(16))) int trial(int *called)
{
    return *called = 1;
}

int trial_hook(int *called)
{
    return *called = 2;
}

} // namespace

bool patches_take_effect()
{
    static std::atomic<void *> original{nullptr};
    int (*volatile call)(int *) = trial;
    int called;

    call(&called);
    return (patch_function(reinterpret_cast<void *>(call),
                           reinterpret_cast<void *>(&trial_hook),
                           original) != nullptr) ||
           (call(&called) == 2);
}

} // namespace ucx_ib_dmabuf::ucm
