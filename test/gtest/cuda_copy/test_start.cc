// SPDX-License-Identifier: BSD-3-Clause
//
// A process that has not used CUDA yet.
#include <common/gpu.h>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <uct/ib_dmabuf/cuda_copy/cuda_copy.h>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <unistd.h>

namespace ours = ucx_ib_dmabuf;

namespace {

constexpr size_t mib = 1 << 20;

// CUDA fails in a child that is forked after CUDA's initialization.
TEST(test_copier_start, cuda_is_initialized_by_the_program_only)
{
    GTEST_FLAG_SET(death_test_style, "threadsafe"); // a process of its own
    EXPECT_EXIT(
        {
            auto *copier = ours::find_cuda_copy_ops();
            ours::cuda_copy_ops::found found{};
            int status      = 0;
            const auto here = reinterpret_cast<uintptr_t>(&status);
            if (!copier->has_gpu() || !copier->begin() || !ours::find_cuda() ||
                (copier->detect(here, 1, &found) == ours::UCS_OK)) {
                exit(1);
            }
            const pid_t child = fork();
            if (child == 0) {
                gpu::use();
                const gpu::buffer some(mib);
                _exit((copier->detect(some.address(), mib, &found) !=
                       ours::UCS_OK) ||
                      (found.type != ours::UCS_MEMORY_TYPE_CUDA) ||
                      !found.lasts);
            }
            waitpid(child, &status, 0);
            exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
        },
        testing::ExitedWithCode(0), "");
}

} // namespace
