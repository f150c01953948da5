// SPDX-License-Identifier: BSD-3-Clause
//
// New memory that is registered before its first use, on the simulated GPU.
#include "fake_domain.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <thread>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/ucm.h>

namespace {

// The release of so little starts no thread. Each test has a size of its own,
// as what earlier ones taught is still known.
constexpr size_t mib = 1 << 20;

uint64_t exports()
{
    return gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls")(
        "cuMemGetHandleForAddressRange");
}

class prefetch_test : public domain_test {
protected:
    // It is the default.
    static void SetUpTestSuite() { unsetenv("UCX_IB_DMABUF_PREFETCH"); }

    void use(const gpu::buffer &memory)
    {
        EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(memory.address(), 1)));
    }

    // As UCX's hook of cudaMalloc does, after the driver's.
    static void repeat(const gpu::buffer &memory)
    {
        const auto &ucm = *ucx_ib_dmabuf::all_ucm().front();
        ucx_ib_dmabuf::ucm_event_t event{};
        event.mem_type.address  = memory.pointer();
        event.mem_type.size     = memory.size();
        event.mem_type.mem_type = ucm.unknown_type;
        ucm.event_enter();
        ucm.event_dispatch(ucx_ib_dmabuf::UCM_EVENT_MEM_TYPE_ALLOC, &event);
        ucm.event_leave();
    }
    // Memory is registered ahead once two of its size were used.
    void expect_ahead(size_t size)
    {
        use(gpu::buffer(size));
        use(gpu::buffer(size));
        const uint64_t before = ahead();
        const gpu::buffer memory(size);
        const uint64_t in_vain = vain();
        repeat(memory);
        while (ahead() == before) {
            std::this_thread::yield();
        }
        EXPECT_EQ(in_vain, vain());
        use(memory);
    }
    static uint64_t vain()
    {
        return ucx_ib_dmabuf::process_counters.get("prefetches_unused");
    }
    static uint64_t ahead()
    {
        return ucx_ib_dmabuf::process_counters.get("prefetches");
    }
};

// The cache's thread, by its name.
pid_t find_thread()
{
    for (const auto &each :
         std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        std::ifstream(each.path() / "comm") >> name;
        if (name == "ucx-ib-dmabuf") {
            return std::stoi(each.path().filename());
        }
    }
    return 0;
}

// The first thread with new memory of a used size starts it, here from a
// processor of its own.
TEST_F(prefetch_test, its_thread_runs_where_the_process_may)
{
    constexpr size_t size = mib;
    for (int i = 0; i < 10; ++i) {
        gpu::buffer unused(size);
    }
    EXPECT_EQ(find_thread(), 0);
    cpu_set_t all, one, its;
    ASSERT_EQ(sched_getaffinity(getpid(), sizeof(all), &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; CPU_COUNT(&one) == 0; ++i) {
        CPU_ZERO(&one);
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
        }
    }
    CUcontext context;
    GPU_CALL(cuCtxGetCurrent, &context);
    std::thread([&] {
        EXPECT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
        GPU_CALL(cuCtxSetCurrent, context);
        expect_ahead(size);
    }).join();
    const pid_t thread = find_thread();
    ASSERT_NE(thread, 0);
    ASSERT_EQ(sched_getaffinity(thread, sizeof(its), &its), 0);
    EXPECT_TRUE(CPU_EQUAL(&its, &all));
    EXPECT_EQ(sched_getscheduler(thread), SCHED_BATCH);
}

// Another thread may use the driver only where a thread captures a stream.
TEST_F(prefetch_test, the_first_use_finds_it_registered)
{
    constexpr size_t size = 2 * mib;
    const uint64_t before = ahead();
    use(gpu::buffer(size));
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
}

// UCX retains and releases the primary context for most copies.
TEST_F(prefetch_test, other_users_of_the_context_end_nothing)
{
    constexpr size_t size = 8 * mib;
    expect_ahead(size);
    for (int i = 0; i < 100; ++i) {
        const uint64_t before = ahead();
        const gpu::buffer memory(size);
        CUcontext context;
        GPU_CALL(cuDevicePrimaryCtxRetain, &context, 0);
        GPU_CALL(cuDevicePrimaryCtxRelease, 0);
        while (ahead() == before) {
            std::this_thread::yield();
        }
        use(memory);
    }
}

// They neither teach nor start anything, and no context is created for them.
TEST_F(prefetch_test, managed_and_pool_memory_are_not_looked_at)
{
    constexpr size_t size = 4 * mib;
    expect_ahead(size);
    const uint64_t exported = exports();
    for (int i = 0; i < 10; ++i) {
        CUdeviceptr managed, pooled;
        GPU_CALL(cuMemAllocManaged, &managed, size, CU_MEM_ATTACH_GLOBAL);
        GPU_CALL(cuMemAllocAsync, &pooled, size, nullptr);
        GPU_CALL(cuMemFree, managed);
        GPU_CALL(cuMemFreeAsync, pooled, nullptr);
    }
    GPU_CALL(cuCtxSynchronize);
    EXPECT_EQ(exported, exports());
    expect_ahead(size); // still
}

} // namespace
