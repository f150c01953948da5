// SPDX-License-Identifier: BSD-3-Clause
//
// What the plug-in asks is answered whatever context is current, and leaves
// contexts as they were.
#include "../../../src/uct/ib_dmabuf/cuda/copy.h"
#include "../../../src/uct/ib_dmabuf/cuda/export.h"
#include "../../../src/uct/ib_dmabuf/cuda/memory.h"
#include <common/gpu.h>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

constexpr size_t page = 4096;
constexpr size_t mib  = 1 << 20;

CUcontext current()
{
    CUcontext context = nullptr;
    GPU_CALL(cuCtxGetCurrent, &context);
    return context;
}

bool primary_is_active(int ordinal)
{
    unsigned flags = 0;
    int active     = 0;
    GPU_CALL(cuDevicePrimaryCtxGetState, ordinal, &flags, &active);
    return active != 0;
}

// What other tests left.
void release_primary(int ordinal)
{
    while (primary_is_active(ordinal)) {
        GPU_CALL(cuDevicePrimaryCtxRelease, ordinal);
    }
}

class test_contexts : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        cuda_ = driver::get();
        ASSERT_NE(nullptr, cuda_);
        release_primary(1);
    }

    // All that is done with memory works in this thread and changes nothing.
    void use(uintptr_t base, size_t size)
    {
        const CUcontext before = current();
        const uintptr_t inside = base + size / 2 + 5;
        std::vector<char> out(100, 'x');
        std::vector<char> in(100);
        cuda_memory found{};
        int fd = -1;

        EXPECT_EQ(UCS_OK, cuda_describe(*cuda_, inside, 100, &found));
        EXPECT_EQ(base, found.base);
        EXPECT_EQ(size, found.size);
        EXPECT_TRUE(cuda_is_current(*cuda_, base, size, found.identity));
        EXPECT_EQ(UCS_OK, cuda_export_dmabuf(*cuda_, base, size, &fd));
        close(fd);
        EXPECT_EQ(UCS_OK, cuda_copy_from_host(*cuda_, inside, out.data(), 100));
        EXPECT_EQ(UCS_OK, cuda_copy_to_host(*cuda_, in.data(), inside, 100));
        EXPECT_EQ(out, in);
        EXPECT_EQ(before, current());
    }

    // With none, with the other GPU's, and with the GPU's own.
    void use_everywhere(uintptr_t base, size_t size)
    {
        use(base, size);
        std::thread([&] {
            use(base, size);
            gpu::use(1);
            use(base, size);
            GPU_CALL(cuDevicePrimaryCtxRelease, 1);
        }).join();
    }

    const driver *cuda_ = nullptr;
};

TEST_F(test_contexts, ordinary_memory)
{
    gpu::buffer buffer(4 * mib);
    use_everywhere(buffer.address(), buffer.size());
}

TEST_F(test_contexts, mapped_memory)
{
    gpu::segments memory(1);
    use_everywhere(memory.address(), memory.size());
}

TEST_F(test_contexts, pool_memory)
{
    CUdeviceptr address = 0;

    GPU_CALL(cuMemAllocAsync, &address, 4 * mib, nullptr);
    use_everywhere(address, 4 * mib);
    GPU_CALL(cuMemFreeAsync, address, nullptr);
}

TEST_F(test_contexts, memory_of_a_context_that_is_nowhere_current)
{
    CUcontext context = gpu::create_context(1);
    gpu::buffer buffer(4 * mib);
    GPU_CALL(cuCtxPopCurrent, nullptr);
    use_everywhere(buffer.address(), buffer.size());
    GPU_CALL(cuCtxPushCurrent, context);
    buffer.release();
    GPU_CALL(cuCtxDestroy, context);
    EXPECT_FALSE(primary_is_active(1)) << "nobody needed it";
}

// Also in a thread in which the context that ended is current.
TEST_F(test_contexts, memory_whose_context_is_gone_is_no_cuda_memory)
{
    gpu::use(1);
    gpu::buffer buffer(4 * mib);
    const uintptr_t address = buffer.address();
    cuda_memory found{};

    ASSERT_EQ(UCS_OK, cuda_describe(*cuda_, address, mib, &found));
    release_primary(1);
    for (bool is_current : {true, false}) {
        if (!is_current) {
            gpu::use(0);
        }
        EXPECT_EQ(UCS_ERR_NO_ELEM, cuda_describe(*cuda_, address, mib, &found));
        EXPECT_FALSE(cuda_is_current(*cuda_, address, mib, found.identity));
        int fd = -1;
        EXPECT_NE(UCS_OK, cuda_export_dmabuf(*cuda_, address, mib, &fd));
    }
}

TEST_F(test_contexts, primary_contexts_do_not_stay)
{
    gpu::segments memory(1, 1);

    use_everywhere(memory.address(), memory.size());
    EXPECT_FALSE(primary_is_active(1));
}

// It takes a driver a tenth of a second to make one.
TEST_F(test_contexts, segments_share_a_context)
{
    gpu::segments memory(8, 1);
    const uint64_t before =
        SIM_CALL(cuda_sim_calls, "cuDevicePrimaryCtxRetain");
    cuda_memory found{};

    EXPECT_EQ(UCS_OK,
              cuda_describe(*cuda_, memory.address(), memory.size(), &found));
    EXPECT_EQ(before + 1, SIM_CALL(cuda_sim_calls, "cuDevicePrimaryCtxRetain"));
    EXPECT_FALSE(primary_is_active(1));
}

TEST_F(test_contexts, a_current_context_of_the_gpu_is_enough)
{
    gpu::segments memory(1, 1);
    CUcontext context = gpu::create_context(1);
    gpu::scoped_fail fail("cuDevicePrimaryCtxRetain=2");
    use(memory.address(), memory.size());
    GPU_CALL(cuCtxDestroy, context);
}

TEST_F(test_contexts, managed_and_pinned_memory_need_none)
{
    CUdeviceptr managed = 0;
    void *host          = nullptr;

    GPU_CALL(cuMemAllocManaged, &managed, mib, CU_MEM_ATTACH_GLOBAL);
    GPU_CALL(cuMemAllocHost, &host, mib);
    std::thread([&] {
        cuda_memory found{};
        EXPECT_EQ(UCS_OK, cuda_describe(*cuda_, managed, mib, &found));
        EXPECT_EQ(cuda_memory::kind::managed, found.type);
        EXPECT_EQ(UCS_OK, cuda_describe(*cuda_, uintptr_t(host), mib, &found));
        EXPECT_EQ(cuda_memory::kind::host, found.type);
    }).join();
    GPU_CALL(cuMemFree, managed);
    GPU_CALL(cuMemFreeHost, host);
}

// A page that begins with nothing.
TEST_F(test_contexts, the_page_of_a_small_allocation)
{
    gpu::buffer first(512);
    gpu::buffer second(512);
    const uintptr_t start = second.address() & ~(page - 1);
    int fd                = -1;

    first.release();
    ASSERT_NE(start, second.address());
    std::thread([&] {
        EXPECT_EQ(UCS_OK, cuda_export_dmabuf(*cuda_, start, page, &fd));
    }).join();
    close(fd);
}

TEST_F(test_contexts, an_unknown_extent_is_no_export)
{
    gpu::segments memory(1);
    gpu::scoped_fail fail("cuMemGetAddressRange_v2=201");
    cuda_memory found{};

    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              cuda_describe(*cuda_, memory.address(), 1, &found));
}

} // namespace
