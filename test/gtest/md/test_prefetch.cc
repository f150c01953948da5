// SPDX-License-Identifier: BSD-3-Clause
//
// New memory that is registered before its first use, on the simulated GPU.
#include "fake_domain.h"
#include <cstdlib>
#include <dirent.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <uct/ib_dmabuf/stats/counters.h>

namespace {

constexpr size_t size = 8 << 20; // which no other test has

size_t threads()
{
    size_t count = 0;
    DIR *all     = opendir("/proc/self/task");
    while (const dirent *each = readdir(all)) {
        count += each->d_name[0] != '.';
    }
    closedir(all);
    return count;
}

uint64_t exports()
{
    return gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls")(
        "cuMemGetHandleForAddressRange");
}

class prefetch_test : public ::testing::Test {
protected:
    void use(const gpu::buffer &memory)
    {
        EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(memory.address(), 1)));
    }
    void teach()
    {
        for (int i = 0; i < 2; ++i) {
            use(gpu::buffer(size));
        }
    }
    static uint64_t ahead()
    {
        return ucx_ib_dmabuf::process_counters.get("prefetches");
    }

    // Before the plug-in reads its settings.
    const int on_                    = setenv("UCX_IB_DMABUF_PREFETCH", "y", 1);
    std::unique_ptr<fake_domain> md_ = first_fake_domain();
};

TEST_F(prefetch_test, memory_that_is_sent_never_needs_no_thread)
{
    const size_t before = threads();
    for (int i = 0; i < 10; ++i) {
        gpu::buffer unused(size / 4);
    }
    EXPECT_EQ(before, threads());
}

// A stream is being captured meanwhile, in which this thread alone may
// allocate.
TEST_F(prefetch_test, the_first_use_finds_it_registered)
{
    const uint64_t before = ahead();
    teach();
    gpu::capture stream;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    GPU_CALL(cuThreadExchangeStreamCaptureMode, &mode);
    gpu::buffer memory(size);
    while (ahead() == before) {
        std::this_thread::yield();
    }
    GPU_CALL(cuThreadExchangeStreamCaptureMode, &mode);
    EXPECT_TRUE(stream.end());
    const uint64_t exported = exports();
    use(memory);
    EXPECT_EQ(exported, exports());
}

} // namespace
