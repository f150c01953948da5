// SPDX-License-Identifier: BSD-3-Clause
//
// Detection and export against the simulated GPU: failures, mappings and
// limits. gtest/contract checks their contract for memory.
#include "fixture.h"
#include <common/linked_ucx.h>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>

namespace {

const bool linked = (test::use_linked_ucx(), true);

using test_cuda = cuda_test;

// behaviours.tap repeats this with other settings.
TEST_F(test_cuda, the_pcie_mapping_is_asked_for_where_there_is_another)
{
    gpu::buffer buffer(4 * mib);
    int coherent = 0, version = 0;
    GPU_CALL(cuDeviceGetAttribute, &coherent,
             ::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
             0);
    GPU_CALL(cuDriverGetVersion, &version);
    const bool known = !coherent || (version >= 12080);
    int fd           = -1;
    ASSERT_EQ(known ? UCS_OK : UCS_ERR_UNSUPPORTED,
              cuda_->export_range_pcie(buffer.address(), mib, &fd));
    if (known) {
        EXPECT_EQ(coherent, SIM_CALL(cuda_sim_dmabuf_is_pcie, fd));
        close(fd);
    }
    ASSERT_EQ(UCS_OK, cuda_->export_range(buffer.address(), mib, &fd));
    EXPECT_EQ(0, SIM_CALL(cuda_sim_dmabuf_is_pcie, fd));
    close(fd);
}

// A coherent GPU reads all of it; uct_ib registers it as without the plug-in.
TEST_F(test_cuda, memory_of_the_host_is_no_gpu_memory)
{
    using gpu::memory;
    allocation found;
    int fd = -1;

    for (const memory kind :
         {memory::host, memory::pinned, memory::managed, memory::mapped_host}) {
        const gpu::buffer some(4 * mib, kind);
        const uintptr_t page = cuda_->granularity();
        const uintptr_t at   = (some.address() + page) & ~(page - 1);

        EXPECT_EQ(UCS_ERR_NO_ELEM, cuda_->describe(at, &found))
            << gpu::name_of(kind);
        EXPECT_FALSE(cuda_->is_current(at, 1)) << gpu::name_of(kind);
        if (kind != memory::managed) { // the simulated driver's is ordinary
            for (auto how : {mapping_type::standard, mapping_type::pcie}) {
                EXPECT_NE(UCS_OK,
                          cuda_->export_mapped(how, at, page, &fd, false))
                    << gpu::name_of(kind);
            }
        }
    }
}

// behaviours.tap runs this in a GB200 node.
TEST_F(test_cuda, gpus_of_a_node_have_their_own_addresses)
{
    std::set<std::string> seen;
    char address[32]      = "";
    const bool in_gb200   = getenv("CUDA_SIM_NODE") != nullptr;
    const size_t expected = in_gb200 ? 64 << 10 : 4 << 10;
    const size_t gpus     = in_gb200 ? 4 : 2;

    EXPECT_EQ(expected, cuda_->granularity());
    for (int gpu = 0; gpu < int(gpus); ++gpu) {
        bar1_memory bar1{};
        ASSERT_TRUE(driver::get()->read_pci_address(gpu, address));
        seen.insert(address);
        EXPECT_TRUE(read_bar1(address, &bar1)) << address;
        gpu::use(gpu);
        const gpu::buffer some(mib);
        use(some.address(), mib, gpu);
    }
    EXPECT_EQ(gpus, cuda_->gpus_in_use().size());
    gpu::use();
    EXPECT_EQ(gpus, seen.size());
    EXPECT_EQ(in_gb200, seen.contains("0019:01:00.0"));
}

TEST_F(test_cuda, errors_of_the_driver_become_statuses)
{
    const gpu::buffer buffer(4 * mib);
    const gpu::segments memory(1);
    const struct {
        ::CUresult error;
        ucs_status_t exported, described;
    } cases[] = {
        {::CUDA_ERROR_NOT_SUPPORTED, UCS_ERR_UNSUPPORTED, UCS_ERR_UNSUPPORTED},
        {::CUDA_ERROR_OUT_OF_MEMORY, UCS_ERR_NO_MEMORY, UCS_ERR_UNSUPPORTED},
        {::CUDA_ERROR_UNKNOWN, UCS_ERR_IO_ERROR, UCS_ERR_UNSUPPORTED},
        // The memory was released between two calls.
        {::CUDA_ERROR_INVALID_VALUE, UCS_ERR_INVALID_PARAM, UCS_ERR_NO_ELEM},
        {::CUDA_ERROR_NOT_FOUND, UCS_ERR_IO_ERROR, UCS_ERR_NO_ELEM},
        // Temporary.
        {::CUDA_ERROR_INVALID_CONTEXT, UCS_ERR_BUSY, UCS_ERR_BUSY},
        {::CUDA_ERROR_CONTEXT_IS_DESTROYED, UCS_ERR_BUSY, UCS_ERR_BUSY},
        {::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, UCS_ERR_BUSY, UCS_ERR_BUSY},
    };

    for (const auto &[error, exported, described] : cases) {
        const auto code = "=" + std::to_string(static_cast<int>(error));
        gpu::scoped_fail fail("cuMemGetHandleForAddressRange" + code +
                              ",cuMemGetAddressRange_v2" + code);
        allocation found;
        int fd = -1;
        EXPECT_EQ(exported, cuda_->export_range(buffer.address(), mib, &fd))
            << error;
        EXPECT_EQ(described, cuda_->describe(memory.address(), &found))
            << error;
    }
}

TEST_F(test_cuda, gpus_without_dma_bufs_are_reported)
{
    static std::string warned;
    ucx_ib_dmabuf::tell_warnings_to(
        [](const char *message, const char *) { warned = message; });
    EXPECT_TRUE(cuda_->can_export());
    EXPECT_EQ("", warned);

    gpu::scoped_fail fail("cuDeviceGetAttribute=801");
    EXPECT_FALSE(cuda_->can_export());
    EXPECT_NE(std::string::npos, warned.find("dma-buf")) << warned;
    ucx_ib_dmabuf::tell_warnings_to(nullptr);
}

TEST_F(test_cuda, bar1_limits_what_is_registered)
{
    EXPECT_EQ(SIZE_MAX, cuda_->max_registered(0)) << "it maps all memory";
    EXPECT_EQ(SIZE_MAX, cuda_->max_registered(99)) << "no such GPU";
    // The simulated GPU reads its settings once.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const struct {
        const char *coherent, *mib;
        size_t budget;
    } cases[] = {
        {"n", "1000", 900 * mib},
        {"n", "81919", 81919 * mib / 10 * 9},
        {"n", "81920", SIZE_MAX}, // covers all memory
        {"y", "1000", SIZE_MAX},  // BAR1 is not used
    };
    const char *was = getenv("CUDA_SIM_COHERENT");
    const std::string before(was ? was : "n");
    for (const auto &one : cases) {
        setenv("CUDA_SIM_COHERENT", one.coherent, 1);
        setenv("CUDA_SIM_BAR1_MIB", one.mib, 1);
        setenv("CUDA_SIM_MEMORY_MIB", "81920", 1);
        EXPECT_EXIT(_exit(cuda_->max_registered(0) == one.budget ? 0 : 1),
                    ::testing::ExitedWithCode(0), "")
            << one.mib;
    }
    setenv("CUDA_SIM_COHERENT", before.c_str(), 1);
    unsetenv("CUDA_SIM_BAR1_MIB");
    unsetenv("CUDA_SIM_MEMORY_MIB");
}

// The driver exports no range beyond a reservation, and some allocators make a
// reservation for each allocation.
TEST_F(test_cuda, a_run_ends_with_its_reservation)
{
    std::vector<std::unique_ptr<gpu::segments>> all;
    std::map<uintptr_t, const gpu::segments *> by_address;
    size_t neighbours = 0;

    for (int i = 0; i < 4; ++i) {
        all.push_back(std::make_unique<gpu::segments>(1 + i % 2));
        by_address[all.back()->address()] = all.back().get();
    }
    for (const auto &[address, memory] : by_address) {
        segment_run run;
        neighbours += by_address.count(address + memory->size());
        ASSERT_EQ(UCS_OK, run.describe(*cuda_, make_range(address, 100)));
        run.extend(*cuda_, {0, UINTPTR_MAX});
        EXPECT_EQ(make_range(address, memory->size()), run.range);
    }
    EXPECT_GT(neighbours, 0u) << "nothing lies side by side";
}

} // namespace
