// SPDX-License-Identifier: BSD-3-Clause
//
// Functions are patched while other threads call them, at every offset within a
// cache line. Each begins with one instruction as long as the jump: threads
// between replaced instructions are not tested (docs/events.md, what cannot be
// seen).
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <ucm/machine_code.h>
#include <vector>

#include <ucm/code_patch.h>

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

#if defined(__x86_64__)
constexpr uint8_t OTHER_JUMP[] = {0xe9, 0x10, 0, 0};
constexpr size_t OFFSETS[]     = {0, 3, 4, 7, 55, 56, 58, 59};

// A function that returns a number, and all else in memory.
void write_function(uint8_t *code, uint32_t value)
{
    code[0] = 0xb8; // mov $value, %eax; ret
    memcpy(code + 1, &value, sizeof(value));
    code[5] = 0xc3;
}
constexpr int FILLING = 0xcc;
#else
constexpr uint8_t OTHER_JUMP[] = {0x04, 0, 0, 0x14};
constexpr size_t OFFSETS[]     = {0, 4, 56};

void write_function(uint8_t *code, uint32_t value)
{
    const uint32_t text[] = {0x52800000 | (value << 5), 0xd65f03c0};
    memcpy(code, text, sizeof(text)); // mov w0, #value; ret
}
constexpr int FILLING = 0; // udf
#endif

// mprotect() with this protection fails; 0: none does.
std::atomic<int> refused_protection{0};

// Calls so far, and the last one's protection.
std::atomic<int> protections{0}, last_protection{0};

// The function that another tool patches as soon as it is writable.
std::atomic<void *> patched_meanwhile{nullptr};

} // namespace

// Replaces libc's mprotect() for the code under test.
extern "C" int mprotect(void *address, size_t length, int protection) noexcept;
extern "C" int mprotect(void *address, size_t length, int protection) noexcept
{
    if ((protection != 0) && (refused_protection.load() == protection)) {
        errno = EACCES;
        return -1;
    }
    ++protections;
    last_protection  = protection;
    const int result = pkey_mprotect(address, length, protection, -1);
    if (void *code = patched_meanwhile.exchange(nullptr)) {
        memcpy(code, OTHER_JUMP, sizeof(OTHER_JUMP));
    }
    return result;
}

namespace ucx_ib_dmabuf {
namespace {

using namespace ucm;

// Each step that makes new code visible, with the bytes of a function then.
const uint8_t *watched_function = nullptr;
std::vector<std::string> steps;

std::string bytes_at(const uint8_t *code)
{
    return std::string(reinterpret_cast<const char *>(code), near_jump_size);
}

void note(const char *step)
{
    if (watched_function == nullptr) {
        return;
    }
    const std::string text = step + bytes_at(watched_function);
    if (steps.empty() || (steps.back() != text)) {
        steps.push_back(text);
    }
}

// Replaces libc's syscall() and the compiler's __clear_cache(), which is no
// function on x86-64 (local.mk).
extern "C" long __real_syscall(long number, long command, long, long);
extern "C" long __wrap_syscall(long number, long command, long a, long b)
{
    if ((number == SYS_membarrier) &&
        (command == MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)) {
        note("cores ");
    }
    return __real_syscall(number, command, a, b);
}
extern "C" void __real___clear_cache(void *begin, void *end);
extern "C" void __wrap___clear_cache(void *begin, void *end)
{
    const bool elsewhere =
        (begin > watched_function) || (end < watched_function + near_jump_size);
    note(elsewhere ? "other cache " : "cache ");
    __real___clear_cache(begin, end);
}

constexpr size_t LINE    = 64;
constexpr int HOOKED     = -1;
constexpr int EXECUTE    = PROT_READ | PROT_EXEC;
constexpr int EVERYTHING = EXECUTE | PROT_WRITE;

int hook()
{
    return HOOKED;
}

// Functions without arguments that return their number.
class Functions {
public:
    using Function = int();

    Functions(size_t count, size_t offset)
        : offset_(offset), size_((count + 1) * LINE),
          memory_(static_cast<uint8_t *>(
              mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)))
    {
        memset(memory_, FILLING, size_);
        for (size_t i = 0; i < count; ++i) {
            write_function(start(i), uint32_t(i));
        }
        auto *const text = reinterpret_cast<char *>(memory_);
        __builtin___clear_cache(text, text + size_);
        pkey_mprotect(memory_, size_, EXECUTE, -1);
    }
    ~Functions() { munmap(memory_, size_); }
    Functions(const Functions &)            = delete;
    Functions &operator=(const Functions &) = delete;

    uint8_t *start(size_t i) const { return memory_ + i * LINE + offset_; }

    int call(size_t i) const
    {
        return reinterpret_cast<Function *>(start(i))();
    }

    const char *patch(size_t i) const
    {
        static std::atomic<void *> original; // not called
        return patch_function(start(i), reinterpret_cast<void *>(hook),
                              original);
    }

private:
    size_t offset_, size_;
    uint8_t *memory_;
};

class PatchThreads : public testing::TestWithParam<size_t> {};

TEST_P(PatchThreads, CallersSeeTheFunctionOrTheHook)
{
    constexpr size_t COUNT = 500;
    const Functions functions(COUNT, GetParam());
    std::atomic<size_t> current{0};
    std::atomic<long> wrong{0}, calls{0};

    std::vector<std::thread> callers;
    for (int i = 0; i < 2; ++i) {
        callers.emplace_back([&] {
            for (size_t f = 0; f < COUNT; f = current.load()) {
                const int answer = functions.call(f);
                wrong += (answer != int(f)) && (answer != HOOKED);
                ++calls;
            }
        });
    }
    for (size_t i = 0; i < COUNT; ++i) {
        current = i;
        // Waits until other threads call the function.
        for (const long before = calls; calls < before + 3;) {
            std::this_thread::yield();
        }
        EXPECT_STREQ(nullptr, functions.patch(i));
        EXPECT_EQ(HOOKED, functions.call(i));
    }
    current = COUNT;
    for (std::thread &caller : callers) {
        caller.join();
    }
    EXPECT_EQ(0, wrong.load());
}

INSTANTIATE_TEST_SUITE_P(Offsets, PatchThreads, testing::ValuesIn(OFFSETS));

#if defined(__x86_64__)
// No store across two cache lines is atomic for all processors.
TEST(PatchWrite, BeginsAtTheEndOfALine)
{
    for (const size_t offset : {LINE - 4, LINE - 1}) {
        const Functions functions(1, offset);
        EXPECT_STREQ("it begins at the end of a cache line",
                     functions.patch(0));
        EXPECT_EQ(0, functions.call(0));
    }
}
#endif

// No processor here shows a missing barrier for certain.
TEST(PatchWrite, EachStepIsMadeVisible)
{
    const Functions functions(1, 0);
    const std::string before = bytes_at(functions.start(0));
    steps.clear();
    watched_function = functions.start(0);
    EXPECT_STREQ(nullptr, functions.patch(0));
    watched_function        = nullptr;
    const std::string after = bytes_at(functions.start(0));
#if defined(__x86_64__)
    const std::vector<std::string> wanted; // the store is enough
#else
    const std::vector<std::string> wanted{"other cache " + before,
                                          "cores " + before, "cache " + after,
                                          "cores " + after};
#endif
    EXPECT_EQ(wanted, steps);
}

TEST(PatchWrite, MemoryThatCannotBeWritten)
{
    const Functions functions(1, 0);
    refused_protection = EVERYTHING;
    EXPECT_STREQ("its code cannot be written", functions.patch(0));
    refused_protection = 0;
    EXPECT_EQ(0, functions.call(0));
}

TEST(PatchWrite, AnotherToolIsFaster)
{
    const Functions functions(1, 0);
    patched_meanwhile = functions.start(0);
    EXPECT_STREQ("something else changed it meanwhile", functions.patch(0));
    EXPECT_EQ(0, memcmp(functions.start(0), OTHER_JUMP, sizeof(OTHER_JUMP)));
}

__attribute__((noinline, aligned(16))) int first(int *called)
{
    return *called = 1;
}
__attribute__((noinline, aligned(16))) int second(int *called)
{
    return *called = 2;
}

// Functions of one library are made writable, and protected again, together.
TEST(PatchWrite, FunctionsOfOneLibrary)
{
    using function                   = int(int *);
    function *const volatile calls[] = {first, second};
    int (*const hooked)(int *)       = [](int *) { return HOOKED; };
    static std::atomic<void *> originals[2];
    void *const both[] = {reinterpret_cast<void *>(calls[1]),
                          reinterpret_cast<void *>(calls[0])};
    int called         = 0;

    protections = 0;
    {
        const writable_functions meanwhile(both);
        EXPECT_EQ(EVERYTHING, last_protection);
        for (size_t i = 0; i < 2; ++i) {
            EXPECT_STREQ(nullptr,
                         patch_function(reinterpret_cast<void *>(calls[i]),
                                        reinterpret_cast<void *>(hooked),
                                        originals[i]));
        }
        EXPECT_EQ(1, protections);
    }
    EXPECT_EQ(2, protections);
    EXPECT_EQ(EXECUTE, last_protection);
    for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(HOOKED, calls[i](&called));
        EXPECT_EQ(int(i) + 1,
                  reinterpret_cast<function *>(originals[i].load())(&called));
    }
}

// The function is patched even if its page stays writable.
TEST(PatchWrite, MemoryThatStaysWritable)
{
    const Functions functions(1, 0);
    refused_protection = EXECUTE;
    EXPECT_STREQ(nullptr, functions.patch(0));
    refused_protection = 0;
    EXPECT_EQ(HOOKED, functions.call(0));
}

} // namespace
} // namespace ucx_ib_dmabuf

#endif
