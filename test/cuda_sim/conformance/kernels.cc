// SPDX-License-Identifier: BSD-3-Clause
//
// Checks which calls wait for a kernel (a program on the GPU) in the legacy
// stream, such as a kernel that waits for a message.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

namespace ucx_ib_dmabuf::conformance {
namespace {

using clock = std::chrono::steady_clock;

constexpr auto runs_for = std::chrono::milliseconds(100);

// Runs for `length` ns.
constexpr char program[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 length)
{
    .reg .u64 %start, %now, %length;
    .reg .pred %more;
    ld.param.u64 %length, [length];
    mov.u64 %start, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %more, %now, %length;
    @%more bra again;
    ret;
}
)";

// Ends by itself, also on the simulated GPU, which runs no programs.
class kernel {
public:
    kernel()
    {
        if (!gpu::is_simulated() &&
            GPU_TRY(cuModuleLoadData, &module_, program) == CUDA_SUCCESS) {
            GPU_TRY(cuModuleGetFunction, &spin_, module_, "spin");
        }
    }
    ~kernel()
    {
        if (module_ != nullptr)
            GPU_TRY(cuModuleUnload, module_);
    }
    kernel(const kernel &)            = delete;
    kernel &operator=(const kernel &) = delete;

    bool valid() const { return gpu::is_simulated() || spin_ != nullptr; }

    // Whether the kernel still runs when the call returns.
    bool outlasts(const std::function<void()> &call)
    {
        std::thread end;
        if (gpu::is_simulated()) {
            end = std::thread([runs = std::make_unique<gpu::running_kernel>()] {
                std::this_thread::sleep_for(runs_for);
            });
        } else {
            unsigned long long length =
                std::chrono::nanoseconds(runs_for).count();
            void *arguments[] = {&length};
            GPU_TRY(cuLaunchKernel, spin_, 1, 1, 1, 1, 1, 1, 0, nullptr,
                    arguments, nullptr);
        }
        const auto began = clock::now();
        call();
        const bool runs =
            gpu::is_simulated()
                ? clock::now() - began < runs_for / 2
                : GPU_TRY(cuStreamQuery, nullptr) == CUDA_ERROR_NOT_READY;
        if (end.joinable())
            end.join();
        GPU_TRY(cuCtxSynchronize);
        return runs;
    }

private:
    CUmodule module_ = nullptr;
    CUfunction spin_ = nullptr;
};

} // namespace

void check_kernels()
{
    section("while a kernel runs");
    kernel running;
    CUdeviceptr memory;
    CUstream stream;
    if (!running.valid() ||
        GPU_TRY(cuMemAlloc, &memory, 4 * MiB) != CUDA_SUCCESS ||
        GPU_TRY(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING) !=
            CUDA_SUCCESS) {
        observe("a kernel", "not possible, nothing to check");
        return;
    }
    const auto does_not_wait = [&](const char *name, const auto &call) {
        claim(running.outlasts(call), std::string(name) + " does not wait");
    };
    // The first copy is not measured, as it sets things up.
    copy_in(stream, memory);
    does_not_wait("a query", [&] { buffer_id(memory); });
    does_not_wait("an export", [&] { try_export(memory, 4 * MiB); });
    does_not_wait("a copy in a stream of its own",
                  [&] { copy_in(stream, memory); });
    does_not_wait("a first copy in a new stream",
                  [&] { copy_in_own_stream(memory); });
    does_not_wait("mapped memory's beginning and end",
                  [] { gpu::segments mapping(1); });
    GPU_TRY(cuMemFree, memory);
    GPU_TRY(cuStreamDestroy, stream);
}

} // namespace ucx_ib_dmabuf::conformance
