// SPDX-License-Identifier: BSD-3-Clause
//
// Atomic operations on GPU memory that reached UCP as messages.
#include "fake_domain.h"
#include <common/elsewhere.h>
#include <common/gpu.h>
#include <cstring>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/md/process_state.h>

namespace {

using ucx_ib_dmabuf::atomic_operation;
using ucx_ib_dmabuf::atomic_request;
using ucx_ib_dmabuf::do_gpu_atomic;

// Adds to the 8 bytes at the address. Returns whether the plug-in did.
bool add(uintptr_t address, uint64_t operand = 1)
{
    uint64_t before = 0;
    return do_gpu_atomic({address, 8, atomic_operation::add, operand, 0},
                         &before);
}

class test_atomics : public domain_test {
protected:
    static uint64_t read(const gpu::buffer &from)
    {
        uint64_t word = 0;
        GPU_CALL(cuMemcpyDtoH, &word, from.address(), sizeof(word));
        return word;
    }
    static void write(const gpu::buffer &to, uint64_t word)
    {
        GPU_CALL(cuMemcpyHtoD, to.address(), &word, sizeof(word));
    }
    static uint64_t apply(atomic_operation operation, uint64_t old,
                          uint64_t operand, uint64_t swapped = 0)
    {
        gpu::buffer word(sizeof(uint64_t));
        uint64_t before = 0;

        write(word, old);
        EXPECT_TRUE(do_gpu_atomic(
            {word.address(), sizeof(old), operation, operand, swapped},
            &before));
        EXPECT_EQ(old, before);
        return read(word);
    }
    // Expects that the operation is left to the CPU, and copies nothing.
    static void expect_refused(uintptr_t address)
    {
        const uint64_t copied = gpu::copied_bytes();

        EXPECT_FALSE(add(address));
        EXPECT_EQ(copied, gpu::copied_bytes());
    }
};

TEST_F(test_atomics, each_operation_does_what_it_says)
{
    EXPECT_EQ(1u, apply(atomic_operation::add, ~0ul - 1, 3));
    EXPECT_EQ(0x0cu, apply(atomic_operation::bit_and, 0x0f, 0x3c));
    EXPECT_EQ(0x3fu, apply(atomic_operation::bit_or, 0x0f, 0x3c));
    EXPECT_EQ(0x33u, apply(atomic_operation::bit_xor, 0x0f, 0x3c));
    EXPECT_EQ(7u, apply(atomic_operation::swap, 5, 7));
    EXPECT_EQ(9u, apply(atomic_operation::cswap, 5, 5, 9));
    EXPECT_EQ(5u, apply(atomic_operation::cswap, 5, 6, 9));
}

TEST_F(test_atomics, four_bytes_leave_the_next_four_alone)
{
    gpu::buffer word(sizeof(uint64_t));
    uint64_t before = 0;

    write(word, 0x11111111fffffffful);
    EXPECT_TRUE(do_gpu_atomic({word.address(), 4, atomic_operation::add, 2, 0},
                              &before));
    EXPECT_EQ(0xffffffffu, before);
    EXPECT_EQ(0x1111111100000001ul, read(word));
    before = 0;
    EXPECT_TRUE(do_gpu_atomic(
        {word.address() + 4, 4, atomic_operation::cswap, 0x11111111, 8},
        &before));
    EXPECT_EQ(0x800000001ul, read(word));
}

TEST_F(test_atomics, none_is_lost_between_threads)
{
    for (const auto kind :
         {gpu::memory::device, gpu::memory::pool, gpu::memory::vmm}) {
        gpu::buffer word(sizeof(uint64_t), kind);
        constexpr uint64_t count = 2000;

        write(word, 0);
        // These threads have no current context.
        in_threads(4, [&](unsigned i) {
            for (uint64_t n = 0; n < count; ++n) {
                EXPECT_TRUE(add(word.address(), i + 1));
            }
        });
        EXPECT_EQ(count * 10, read(word)) << gpu::name_of(kind);
    }
}

TEST_F(test_atomics, what_is_not_the_gpus_is_left_to_the_cpu)
{
    for (const auto kind :
         {gpu::memory::host, gpu::memory::managed, gpu::memory::pinned}) {
        gpu::buffer word(sizeof(uint64_t), kind);
        memset(word.pointer(), 0, sizeof(uint64_t));
        expect_refused(word.address());
    }
    gpu::buffer gone(sizeof(uint64_t));
    const uintptr_t address = gone.address();
    gone.release();
    expect_refused(address);
}

TEST_F(test_atomics, a_copy_that_fails_changes_nothing)
{
    gpu::buffer word(sizeof(uint64_t));

    write(word, 5);
    for (const char *copy : {"1", "2"}) { // from the GPU, to the GPU
        const gpu::scoped_fail failing(std::string("cuMemcpyAsync=700:") +
                                       copy);
        EXPECT_FALSE(add(word.address()));
    }
    EXPECT_EQ(5u, read(word));
}

// UCP may use TCP or shared memory. Exits the process.
void apply_without_a_domain()
{
    uint64_t host = 5;
    ucs_module_global_init();
    gpu::use();
    const gpu::buffer word(sizeof(host));
    const auto on_host = reinterpret_cast<uintptr_t>(&host);
    exit(add(on_host) || !add(word.address()) || add(on_host));
}

TEST(test_atomics_alone, no_domain_need_be_open)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process of its own
    EXPECT_EXIT(apply_without_a_domain(), testing::ExitedWithCode(0), "");
}

} // namespace
