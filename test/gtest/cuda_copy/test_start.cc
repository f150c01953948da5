// SPDX-License-Identifier: BSD-3-Clause
//
// A process that has not used CUDA yet, or has exported nothing yet.
#include <common/elsewhere.h>
#include <common/gpu.h>
#include <common/sim.h>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/cuda_copy/cuda_copy.h>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>

namespace ours = ucx_ib_dmabuf;

namespace {

constexpr size_t mib = 1 << 20;
using gpu::memory;

// Runs in a process of its own, as it is known for a process which memory can
// be exported.
void alone(const std::function<void(ours::cuda_copy_ops &copier)> &body)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            gpu::use();
            ours::cuda_copy_ops *copier = ours::find_cuda_copy_ops();
            if (copier->has_gpu()) {
                body(*copier);
                exit(testing::Test::HasFailure());
            }
            exit(2);
        },
        testing::ExitedWithCode(0), "");
}

void expect_type(ours::cuda_copy_ops &copier, ours::ucs_memory_type_t type,
                 uintptr_t address, bool lasts)
{
    ours::cuda_copy_ops::found found{};

    ASSERT_EQ(ours::UCS_OK, copier.detect(address, 8, &found));
    EXPECT_EQ(type, found.type);
    EXPECT_EQ(lasts, found.lasts);
}

// CUDA fails in a child that is forked after CUDA's initialization.
TEST(test_copier_start, cuda_is_initialized_by_the_program_only)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process of its own
    EXPECT_EXIT(
        {
            auto *copier = ours::find_cuda_copy_ops();
            ours::cuda_copy_ops::found found{};
            const auto here = reinterpret_cast<uintptr_t>(&found);
            const bool good = copier->has_gpu() && copier->begin() &&
                              ours::find_cuda() &&
                              (copier->detect(here, 1, &found) != ours::UCS_OK);
            exit(!good || !in_child([&] {
                gpu::use();
                const gpu::buffer some(mib);
                return (copier->detect(some.address(), mib, &found) ==
                        ours::UCS_OK) &&
                       (found.type == ours::UCS_MEMORY_TYPE_CUDA) &&
                       found.lasts;
            }));
        },
        testing::ExitedWithCode(0), "");
}

// After a brief lack of room UCX would stage the memory for its whole lifetime.
TEST(test_copier_start, what_cannot_be_exported_just_now_is_asked_for_again)
{
    alone([](ours::cuda_copy_ops &copier) {
        copier.begin();
        const gpu::buffer pooled(mib, memory::pool), ordinary(mib);
        const gpu::segments mapped(1);
        {
            const gpu::scoped_fail fail("cuMemGetHandleForAddressRange=2");
            expect_type(copier, ours::UCS_MEMORY_TYPE_CUDA, ordinary.address(),
                        false);
            EXPECT_TRUE(copier.is_exportable(mapped.address()));
        }
        for (const uintptr_t address : {pooled.address(), mapped.address()}) {
            for (const char *error : {"2", "201", "999", "801"}) {
                const gpu::scoped_fail fail(
                    std::string("cuMemGetHandleForAddressRange=") + error);
                expect_type(copier, ours::UCS_MEMORY_TYPE_CUDA_MANAGED, address,
                            std::string(error) == "801");
            }
            expect_type(copier, ours::UCS_MEMORY_TYPE_CUDA, address, true);
        }
    });
}

TEST(test_copier_start, a_kind_of_memory_is_exported_once)
{
    alone([](ours::cuda_copy_ops &copier) {
        constexpr char call[] = "cuMemGetHandleForAddressRange";
        const gpu::buffer older(mib);
        const auto calls_of = [&](memory kind) {
            const gpu::buffer some(mib, kind);
            const uint64_t before = SIM_CALL(cuda_sim_calls, call);
            copier.is_exportable(some.address() + mib / 2);
            copier.is_exportable(some.address());
            return SIM_CALL(cuda_sim_calls, call) - before;
        };
        copier.begin();
        for (const memory kind : {memory::device, memory::pool, memory::vmm}) {
            EXPECT_EQ(1u, calls_of(kind)) << gpu::name_of(kind);
            EXPECT_EQ(0u, calls_of(kind)) << gpu::name_of(kind);
        }
        // Of these the kind does not tell.
        EXPECT_EQ(1u, calls_of(memory::incapable));
        EXPECT_EQ(2u, calls_of(memory::opened));
        const uint64_t before = SIM_CALL(cuda_sim_calls, call);
        copier.is_exportable(older.address());
        EXPECT_EQ(before + 1, SIM_CALL(cuda_sim_calls, call));
    });
}

} // namespace
