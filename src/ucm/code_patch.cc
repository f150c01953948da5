// SPDX-License-Identifier: BSD-3-Clause
#include "code_patch.h"
#include "machine_code.h"
#include "maps.h"
#include <algorithm>
#include <array>
#include <link.h>
#include <linux/membarrier.h>
#include <span>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf::ucm {

#ifdef CAN_PATCH

namespace {

// UCM's patches have 13 or 16 bytes, as others'. (On aarch64, a moved load
// still reads its literal there.)
constexpr size_t longest_patch = 16;
constexpr size_t moved_code    = 64;

uintptr_t page_size()
{
    return uintptr_t(sysconf(_SC_PAGESIZE));
}

uintptr_t distance(uintptr_t a, uintptr_t b)
{
    return (a > b) ? a - b : b - a;
}

// Returns the unmapped page that is nearest to the code; 0 if none is near. It
// searches all mappings, as guesses may fail: CUDA and similar libraries
// reserve gigabytes. The kernel maps small libraries between such reservations.
uintptr_t nearest_free_page(uintptr_t code)
{
    constexpr uintptr_t end_of_space = uintptr_t(1) << 48;
    const uintptr_t page             = page_size();
    uintptr_t last = 1 << 20, best = 0; // nothing is mapped at 0

    each_mapping([&](uintptr_t begin, uintptr_t end, const char *) {
        if ((begin < end_of_space) && (last + page <= begin)) {
            const uintptr_t found = std::clamp(code, last, begin - page);
            if (distance(found, code) < distance(best, code)) {
                best = found & ~(page - 1);
            }
        }
        last = end;
    });
    return (distance(best, code) < near_distance) ? best : 0;
}

// Returns executable memory; empty if none can be mapped near the code. It is
// never unmapped, as threads may run its code until the process ends. The
// kernel's own choice is mostly near, and takes no time, however many mappings
// there are. Else a gap is searched; the kernel takes it if it is still free.
std::span<uint8_t> map_near(uintptr_t code)
{
    constexpr int attempts = 4; // another thread may map in the gap first
    const size_t page      = page_size();
    size_t size            = 4 * page;
    uintptr_t gap          = 0;

    for (int i = 0; i < attempts; ++i) {
        void *const memory = mmap(reinterpret_cast<void *>(gap), size,
                                  PROT_READ | PROT_WRITE | PROT_EXEC,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            break; // executable memory is forbidden
        }
        if (distance(uintptr_t(memory), code) < near_distance) {
            return {static_cast<uint8_t *>(memory), size};
        }
        munmap(memory, size);
        size = page;
        gap  = nearest_free_page(code);
        if (gap == 0) {
            break;
        }
    }
    return {};
}

// Returns executable memory near the code, so that near jumps reach it and
// moved code reaches its operands; nullptr if there is none. 4 KiB hold 42.
uint8_t *allocate_near(const void *code)
{
    constexpr size_t size = entry_size + moved_code + return_size;
    constexpr size_t step = (size + 15) / 16 * 16;
    static std::span<uint8_t> unused;

    if ((unused.size() < step) ||
        (distance(uintptr_t(unused.data()), uintptr_t(code)) >=
         near_distance)) {
        unused = map_near(uintptr_t(code));
    }
    if (unused.empty()) {
        return nullptr;
    }
    uint8_t *const result = unused.data();
    unused                = unused.subspan(step);
    return result;
}

// Addresses from low to high.
struct code_range {
    uintptr_t low, high;

    bool has(uintptr_t at) const { return (low <= at) && (at < high); }
};

// Returns the executable part of a library around an address.
code_range segment_around(uintptr_t address)
{
    struct {
        uintptr_t address;
        code_range found;
    } search{address, {}};
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *arg) {
            auto &to = *static_cast<decltype(search) *>(arg);
            for (const auto &each :
                 std::span(info->dlpi_phdr, info->dlpi_phnum)) {
                const uintptr_t low = info->dlpi_addr + each.p_vaddr;
                const code_range range{low, low + each.p_memsz};
                if ((each.p_type == PT_LOAD) && ((each.p_flags & PF_X) != 0) &&
                    range.has(to.address)) {
                    to.found = range;
                }
            }
            return int(to.found.high != 0);
        },
        &search);
    return search.found;
}

bool protect(code_range code, int protection)
{
    const uintptr_t low = code.low & ~(page_size() - 1);
    return mprotect(reinterpret_cast<void *>(low), code.high - low,
                    protection) == 0;
}

// See writable_functions.
code_range writable{};
int writable_again; // their protection before

struct watched_patch {
    const uint8_t *jump;
    const char *text;
};
std::array<watched_patch, 128> watched;
std::atomic<size_t> watched_count;

} // namespace

// On x86-64 the stores suffice. Elsewhere other cores are notified, unless the
// kernel is older than 4.16; those seldom need it. A process registers for it
// once, which takes milliseconds if it has threads.
void make_visible(uint8_t *code, size_t length)
{
    auto *const text = reinterpret_cast<char *>(code);

    __builtin___clear_cache(text, text + length);
#if !defined(__x86_64__)
    constexpr auto membarrier = [](int command) {
        return syscall(SYS_membarrier, command, 0, 0) == 0;
    };
    if (!membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE) &&
        membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)) {
        membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
    }
#endif
}

const char *patch_function(void *function, void *hook,
                           std::atomic<void *> &original)
{
    uint8_t *const stub = allocate_near(function);
    if (stub == nullptr) {
        return "no executable memory near it";
    }
    auto *const code     = static_cast<uint8_t *>(function);
    uint8_t *const moved = write_entry(stub, code, hook);
    uint8_t *const place = code + jump_offset(code);
    uint8_t before[near_jump_size];
    memcpy(before, place, sizeof(before));
    // Another UCX may patch over this later and need more bytes.
    prologue_copy copy;
    const char *error =
        copy_prologue(code, size_t(place - code) + near_jump_size,
                      longest_patch, moved, moved_code, copy);
    if (error != nullptr) {
        return error;
    }
    const uint8_t *const end =
        write_return(moved + copy.to_length, code + copy.from_length);
    // Before the barrier: a thread that runs the hook may not read this
    // earlier.
    original.store(moved, std::memory_order_release);
    make_visible(stub, size_t(end - stub));

    const code_range there{uintptr_t(place), uintptr_t(place) + near_jump_size};
    if (writable.has(there.low) && (there.high <= writable.high)) {
        return store_near_jump(place, before, stub);
    }
    const int execute = PROT_READ | PROT_EXEC | extra_protection(code);
    if (!protect(there, execute | PROT_WRITE)) {
        return "its code cannot be written";
    }
    error = store_near_jump(place, before, stub);
    // If that fails the page stays writable, which is harmless.
    protect(there, execute);
    return error;
}

writable_functions::writable_functions(std::span<void *const> functions)
{
    code_range all{UINTPTR_MAX, 0};

    if (functions.empty()) {
        return;
    }
    const auto *first        = static_cast<const uint8_t *>(functions.front());
    const code_range segment = segment_around(uintptr_t(first));
    for (const void *function : functions) {
        const auto at = uintptr_t(function);
        if (segment.has(at)) {
            all = {
                std::min(all.low, at),
                std::max(all.high, std::min(at + longest_patch, segment.high))};
        }
    }
    writable_again = PROT_READ | PROT_EXEC | extra_protection(first);
    if (all.high == 0) {
        return;
    }
    if (protect(all, writable_again | PROT_WRITE)) {
        writable = all;
    } else {
        protect(all, writable_again); // a part may be writable
    }
}

writable_functions::~writable_functions()
{
    const code_range before = std::exchange(writable, {});

    if (before.high != 0) {
        protect(before, writable_again);
    }
}

const void *patched_target(const void *function)
{
    constexpr int max_jumps = 4;
    const auto *code        = static_cast<const uint8_t *>(function);
    const void *target      = nullptr;
    const void *next        = jump_target(code + jump_offset(code), false);

    for (int i = 0; (next != nullptr) && (i < max_jumps); ++i) {
        target = next;
        next   = jump_target(static_cast<const uint8_t *>(target), true);
    }
    return target;
}

void watch_patch(const void *function, const char *text)
{
    const auto *code    = static_cast<const uint8_t *>(function);
    const uint8_t *jump = code + jump_offset(code);
    const size_t count  = watched_count.load(std::memory_order_relaxed);

    if ((jump_target(jump, false) != nullptr) && (count < watched.size())) {
        watched[count] = {jump, text};
        watched_count.store(count + 1, std::memory_order_release);
    }
}

const char *overwritten_patch() noexcept
{
    const size_t count = watched_count.load(std::memory_order_acquire);

    for (const watched_patch &each : std::span(watched).first(count)) {
        if (jump_target(each.jump, false) == nullptr) {
            return each.text;
        }
    }
    return nullptr;
}

#else

const char *patch_function(void *, void *, std::atomic<void *> &)
{
    // On other processors UCM cannot call the original of a patched function.
    return "functions cannot be patched on this processor";
}

const void *patched_target(const void *)
{
    return nullptr;
}

writable_functions::writable_functions(std::span<void *const>) {}
writable_functions::~writable_functions() = default;

void watch_patch(const void *, const char *) {}

const char *overwritten_patch() noexcept
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
