// SPDX-License-Identifier: BSD-3-Clause
//
// The plug-in neither disturbs a capturing stream nor waits for kernels.
#include "fixture.h"
#include <atomic>
#include <common/elsewhere.h>
#include <thread>

namespace {

uint64_t calls(const char *name)
{
    return SIM_CALL(cuda_sim_calls, name);
}

class test_streams : public cuda_test {
protected:
    void copy(uintptr_t address)
    {
        std::vector<char> out(1000, 'x');
        std::vector<char> in(1000);

        EXPECT_EQ(UCS_OK,
                  cuda_->copy_from_host(address, out.data(), out.size()));
        EXPECT_EQ(UCS_OK, cuda_->copy_to_host(in.data(), address, in.size()));
        EXPECT_EQ(out, in);
    }

    void use(uintptr_t address)
    {
        allocation found;
        int fd = -1;

        EXPECT_EQ(UCS_OK, cuda_->describe(address, &found));
        EXPECT_TRUE(cuda_->is_current(address, found.identity));
        EXPECT_EQ(UCS_OK, cuda_->export_range(address, mib, &fd));
        close(fd);
        EXPECT_NE(nullptr, cuda_->allocate_probe_buffer(0));
        copy(address);
    }
};

TEST_F(test_streams, captures_are_not_disturbed)
{
    gpu::buffer buffer(4 * mib);
    gpu::segments memory(1);

    for (uintptr_t address : {buffer.address(), memory.address()}) {
        for (auto mode : {::CU_STREAM_CAPTURE_MODE_GLOBAL,
                          ::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                          ::CU_STREAM_CAPTURE_MODE_RELAXED}) {
            for (unsigned flags :
                 {::CU_STREAM_DEFAULT, ::CU_STREAM_NON_BLOCKING}) {
                gpu::capture capture(mode, flags);
                use(address);
                std::thread([&] { use(address); }).join();
                EXPECT_TRUE(capture.end()) << mode << ' ' << flags;
            }
        }
    }
}

TEST_F(test_streams, the_threads_capture_mode_stays)
{
    gpu::buffer buffer(4 * mib);

    for (auto mode : {::CU_STREAM_CAPTURE_MODE_GLOBAL,
                      ::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                      ::CU_STREAM_CAPTURE_MODE_RELAXED}) {
        ::CUstreamCaptureMode now = mode;
        GPU_CALL(cuThreadExchangeStreamCaptureMode, &now);
        use(buffer.address());
        now = ::CU_STREAM_CAPTURE_MODE_GLOBAL;
        GPU_CALL(cuThreadExchangeStreamCaptureMode, &now);
        EXPECT_EQ(mode, now);
    }
}

// The kernel may wait for the message itself, a deadlock.
TEST_F(test_streams, copies_wait_for_no_kernel)
{
    gpu::buffer buffer(mib);
    std::atomic<bool> done{false};
    std::thread copying;
    {
        gpu::running_kernel kernel;
        copying = std::thread([&] {
            copy(buffer.address());
            done = true;
        });
        while (!done && (kernel.waiters() == 0)) {
            std::this_thread::yield();
        }
        EXPECT_TRUE(done) << "the copy waits for a kernel";
    }
    copying.join();
}

TEST_F(test_streams, a_context_has_one_stream)
{
    gpu::buffer buffer(mib);

    copy(buffer.address());
    const uint64_t before = calls("cuStreamCreate");
    copy(buffer.address());
    std::thread([&] { copy(buffer.address()); }).join();
    EXPECT_EQ(before, calls("cuStreamCreate"));
}

TEST_F(test_streams, contexts_come_and_go)
{
    for (int i = 0; i < 3; ++i) {
        CUcontext context = gpu::create_context(0);
        {
            gpu::buffer buffer(mib);
            copy(buffer.address());
        }
        GPU_CALL(cuCtxDestroy, context);
    }
    // A new context may have the old one's handle.
    for (int i = 0; i < 3; ++i) {
        gpu::segments memory(1, 1);
        copy(memory.address());
    }
}

TEST_F(test_streams, threads_share_a_stream)
{
    CUcontext context = gpu::create_context(0);
    gpu::buffer buffer(mib);
    in_threads(4, [&](unsigned i) {
        for (int times = 0; times < 20; ++times) {
            copy(buffer.address() + i * 1000);
        }
    });
    buffer.release();
    GPU_CALL(cuCtxDestroy, context);
}

TEST_F(test_streams, drivers_that_do_not_tell_contexts_apart)
{
    driver older     = *driver::get();
    older.ctx_get_id = nullptr;
    cuda_vendor gpus(older);
    gpu::buffer buffer(mib);
    char byte            = 0;
    const uint64_t made  = calls("cuStreamCreate");
    const uint64_t ended = calls("cuStreamDestroy_v2");

    EXPECT_EQ(UCS_OK, gpus.copy_to_host(&byte, buffer.address(), 1));
    EXPECT_EQ(made + 1, calls("cuStreamCreate"));
    EXPECT_EQ(ended + 1, calls("cuStreamDestroy_v2"));
}

TEST_F(test_streams, failures_are_errors)
{
    gpu::buffer buffer(mib);
    char byte = 0;

    for (const char *call : {"cuMemcpyAsync=2", "cuStreamSynchronize=700",
                             "cuCtxPushCurrent_v2=201"}) {
        gpu::scoped_fail fail(call);
        EXPECT_NE(UCS_OK, cuda_->copy_to_host(&byte, buffer.address(), 1))
            << call;
    }
}

} // namespace
