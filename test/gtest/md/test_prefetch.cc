// SPDX-License-Identifier: BSD-3-Clause
//
// New memory that is registered before its first use, on the simulated GPU.
#include "fake_domain.h"
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <uct/ib_dmabuf/stats/counters.h>

namespace {

// The release of so little starts no thread.
constexpr size_t size = 1 << 20;

auto threads()
{
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         {});
}

uint64_t exports()
{
    return gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls")(
        "cuMemGetHandleForAddressRange");
}

class prefetch_test : public domain_test {
protected:
    void use(const gpu::buffer &memory)
    {
        EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(memory.address(), 1)));
    }

    static void SetUpTestSuite() { setenv("UCX_IB_DMABUF_PREFETCH", "y", 1); }
};

// Another thread may use the driver only where a thread captures a stream.
TEST_F(prefetch_test, the_first_use_finds_it_registered)
{
    const auto ahead = [] {
        return ucx_ib_dmabuf::process_counters.get("prefetches");
    };
    const uint64_t before = ahead();
    const auto alone      = threads();
    use(gpu::buffer(size));
    for (int i = 0; i < 10; ++i) {
        gpu::buffer unused(size / 2);
    }
    EXPECT_EQ(alone, threads());
    use(gpu::buffer(size));
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
    EXPECT_EQ(alone + 1, threads());
}

} // namespace
