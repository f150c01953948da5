// SPDX-License-Identifier: BSD-3-Clause
//
// The plug-in neither disturbs a capturing stream nor waits for kernels.
#include "fixture.h"
#include <atomic>
#include <common/elsewhere.h>

namespace {

uint64_t calls(const char *name)
{
    return SIM_CALL(cuda_sim_calls, name);
}

class test_streams : public cuda_test {
protected:
    template <class Memory>
    void use_and_probe(const Memory &memory)
    {
        use(memory.address(), memory.size());
        EXPECT_NE(nullptr, cuda_->allocate_probe_buffer(0));
    }

    template <class Memory>
    void use_during_captures(const Memory &memory)
    {
        for (auto mode : modes) {
            for (unsigned flags :
                 {::CU_STREAM_DEFAULT, ::CU_STREAM_NON_BLOCKING}) {
                gpu::capture capture(mode, flags);
                use_and_probe(memory);
                std::thread([&] { use_and_probe(memory); }).join();
                EXPECT_TRUE(capture.end()) << mode << ' ' << flags;
            }
        }
    }

    static constexpr ::CUstreamCaptureMode modes[] = {
        ::CU_STREAM_CAPTURE_MODE_GLOBAL, ::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
        ::CU_STREAM_CAPTURE_MODE_RELAXED};
};

TEST_F(test_streams, captures_are_not_disturbed)
{
    use_during_captures(gpu::buffer(4 * mib));
    use_during_captures(gpu::segments(1));
}

TEST_F(test_streams, the_threads_capture_mode_stays)
{
    gpu::buffer buffer(4 * mib);

    for (auto mode : modes) {
        ::CUstreamCaptureMode now = mode;
        GPU_CALL(cuThreadExchangeStreamCaptureMode, &now);
        use_and_probe(buffer);
        now = ::CU_STREAM_CAPTURE_MODE_GLOBAL;
        GPU_CALL(cuThreadExchangeStreamCaptureMode, &now);
        EXPECT_EQ(mode, now);
    }
}

// The kernel may wait for the message itself, a deadlock.
TEST_F(test_streams, copies_wait_for_no_kernel)
{
    gpu::buffer buffer(mib);
    EXPECT_FALSE(gpu::waits_for_kernel(
        [&] { std::thread([&] { copy(buffer.address()); }).join(); }));
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

// A peer's atomic operation may come after the memory was released, and the
// program's host memory may be there.
TEST_F(test_streams, host_memory_is_not_copied)
{
    char here = 'h', there = 't';
    const auto address = reinterpret_cast<uintptr_t>(&there);

    EXPECT_NE(UCS_OK, cuda_->copy_to_host(&here, address, 1));
    EXPECT_NE(UCS_OK, cuda_->copy_from_host(address, &here, 1));
    EXPECT_EQ('h', here);
    EXPECT_EQ('t', there);
}

} // namespace
