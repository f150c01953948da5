// SPDX-License-Identifier: BSD-3-Clause
//
// Detection and export, against the simulated GPU.
#include "../../../src/uct/ib_dmabuf/cache/memory_run.h"
#include "../../../src/uct/ib_dmabuf/cuda/vendor.h"
#include <algorithm>
#include <common/fds.h>
#include <common/gpu.h>
#include <common/linked_ucx.h>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <unistd.h>

using namespace ucx_ib_dmabuf;

namespace {

const bool linked = (test::use_linked_ucx(), true);

constexpr size_t page = 4096;
constexpr size_t mib  = 1 << 20;

class test_cuda : public ::testing::Test {
protected:
    void SetUp() override
    {
        gpu::use();
        ASSERT_NE(nullptr, driver::get());
        cuda_ = std::make_unique<cuda_vendor>(*driver::get());
    }

    ucs_status_t describe(uintptr_t address, size_t length)
    {
        found_ = {};
        return found_.describe(*cuda_, make_span(address, length));
    }
    bool is_current() const { return found_.is_current(*cuda_); }

    std::unique_ptr<cuda_vendor> cuda_;
    memory_run found_;
};

TEST_F(test_cuda, whole_allocation_is_found_from_inside)
{
    gpu::buffer buffer(4 * mib);

    ASSERT_EQ(UCS_OK, describe(buffer.address() + 12345, 678));
    EXPECT_EQ(make_span(buffer.address(), buffer.size()), found_.range);
    EXPECT_EQ(0, found_.device);
    EXPECT_FALSE(found_.joins);
}

TEST_F(test_cuda, host_memory_is_no_cuda_memory)
{
    int on_stack = 0;

    EXPECT_EQ(UCS_ERR_NO_ELEM,
              describe(reinterpret_cast<uintptr_t>(&on_stack), 4));
    EXPECT_EQ(UCS_ERR_NO_ELEM, describe(page, 1));
}

// Whether it goes on in something else is for those who take host memory.
TEST_F(test_cuda, pinned_host_and_managed_memory_are_no_device_memory)
{
    CUdeviceptr managed = 0;
    void *host          = nullptr;

    GPU_CALL(cuMemAllocManaged, &managed, mib, CU_MEM_ATTACH_GLOBAL);
    GPU_CALL(cuMemAllocHost, &host, mib);
    for (uintptr_t address : {uintptr_t{managed}, uintptr_t(host)}) {
        for (size_t length : {size_t{0}, size_t{1}, mib, mib + 1, SIZE_MAX}) {
            EXPECT_EQ(UCS_ERR_NO_ELEM, describe(address + 1, length));
        }
    }
    GPU_CALL(cuMemFree, managed);
    GPU_CALL(cuMemFreeHost, host);
}

// Mapped memory beside an allocation, in either order.
TEST_F(test_cuda, mapped_memory_and_allocations_are_not_one_range)
{
    std::vector<std::unique_ptr<gpu::buffer>> buffers;
    std::vector<std::unique_ptr<gpu::segments>> mapped;
    unsigned before = 0;
    unsigned after  = 0;

    // What other tests left comes first, and may lie alone.
    for (int i = 0; (i < 100) && ((before == 0) || (after == 0)); ++i) {
        buffers.push_back(std::make_unique<gpu::buffer>(2 * mib));
        mapped.push_back(std::make_unique<gpu::segments>(1));
        for (const auto &buffer : buffers) {
            for (const auto &one : mapped) {
                const uintptr_t low =
                    std::min(buffer->address(), one->address());
                if (low + 2 * mib ==
                    std::max(buffer->address(), one->address())) {
                    EXPECT_EQ(UCS_ERR_INVALID_PARAM, describe(low, 4 * mib));
                    ++(low == one->address() ? before : after);
                }
            }
        }
    }
    EXPECT_TRUE((before > 0) && (after > 0)) << before << ' ' << after;
}

TEST_F(test_cuda, released_memory_is_no_cuda_memory)
{
    gpu::buffer buffer(4 * mib);
    const uintptr_t address = buffer.address();

    buffer.release();
    EXPECT_EQ(UCS_ERR_NO_ELEM, describe(address, 1));
}

TEST_F(test_cuda, identity_tells_memory_at_the_same_address_apart)
{
    auto first              = std::make_unique<gpu::buffer>(4 * mib);
    const uintptr_t address = first->address();

    ASSERT_EQ(UCS_OK, describe(address, mib));
    const uint64_t before = found_.identity;
    EXPECT_TRUE(is_current());
    first.reset();
    EXPECT_FALSE(is_current());

    gpu::buffer second(4 * mib);
    ASSERT_EQ(address, second.address()) << "the driver reuses addresses";
    EXPECT_FALSE(is_current());
    ASSERT_EQ(UCS_OK, describe(address, mib));
    EXPECT_NE(before, found_.identity);
}

TEST_F(test_cuda, ranges_beyond_the_allocation_are_refused)
{
    gpu::buffer buffer(4 * mib);

    EXPECT_EQ(UCS_ERR_INVALID_PARAM, describe(buffer.address(), SIZE_MAX));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, describe(buffer.address(), 0));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              describe(buffer.address(), size_t{1} << 40));
}

TEST_F(test_cuda, several_segments_are_one_range)
{
    gpu::segments memory(3);

    ASSERT_EQ(UCS_OK, describe(memory.address() + 100, memory.step()));
    EXPECT_EQ(make_span(memory.address(), 2 * memory.step()), found_.range);
    EXPECT_TRUE(found_.joins);
    EXPECT_TRUE(is_current());
    ASSERT_EQ(UCS_OK, describe(memory.address(), memory.size()));
    EXPECT_EQ(make_span(memory.address(), memory.size()), found_.range);
    EXPECT_EQ(3, found_.all.end() - found_.all.begin());
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              describe(memory.address(), memory.size() + 1));
}

TEST_F(test_cuda, a_remapped_segment_changes_the_identity)
{
    gpu::segments memory(2);
    CUmemGenericAllocationHandle handle = 0;
    ::CUmemAllocationProp prop{};

    prop.type                            = ::CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type                   = ::CU_MEM_LOCATION_TYPE_DEVICE;
    prop.allocFlags.gpuDirectRDMACapable = 1;
    ASSERT_EQ(UCS_OK, describe(memory.address(), memory.size()));

    GPU_CALL(cuMemUnmap, memory.address() + memory.step(), memory.step());
    EXPECT_FALSE(is_current());
    GPU_CALL(cuMemCreate, &handle, memory.step(), &prop, 0);
    GPU_CALL(cuMemMap, memory.address() + memory.step(), memory.step(), 0,
             handle, 0);
    EXPECT_FALSE(is_current());
    GPU_CALL(cuMemRelease, handle);
}

// Each one of them, whatever came before.
TEST_F(test_cuda, a_replaced_segment_is_another)
{
    gpu::segments memory(4);
    std::set<uint64_t> seen;

    for (unsigned times = 0; times < 64; ++times) {
        ASSERT_EQ(UCS_OK, describe(memory.address(), memory.size()));
        for (const auto &each : found_.all) {
            seen.insert(each.identity);
        }
        EXPECT_EQ(4 + times, seen.size());
        memory.remap(times % 4);
        EXPECT_FALSE(is_current());
    }
}

TEST_F(test_cuda, memory_that_the_driver_does_not_export_is_refused)
{
    gpu::segments memory(2);
    const auto exported = [&] {
        int fd = -1;
        ucs_status_t status =
            cuda_->export_range(memory.address(), memory.size(), &fd);
        close(fd);
        return status;
    };

    for (unsigned different : {0, 1}) {
        memory.remap(different, 0, false);
        EXPECT_EQ(UCS_OK, describe(memory.address(), memory.size()));
        EXPECT_NE(UCS_OK, exported()) << different;
        memory.remap(different, 0, true);
        EXPECT_EQ(UCS_OK, exported()) << different;
    }
    memory.remap(0, 0, false);
    memory.remap(1, 0, false);
    EXPECT_EQ(UCS_ERR_UNSUPPORTED, exported());
}

TEST_F(test_cuda, segments_are_of_one_gpu)
{
    gpu::segments memory(2);

    memory.remap(1, 1, true);
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, describe(memory.address(), memory.size()));
    EXPECT_EQ(UCS_OK, describe(memory.address(), memory.step()));
    EXPECT_EQ(UCS_OK, describe(memory.address() + memory.step(), 1));
    EXPECT_EQ(1, found_.device);
}

TEST_F(test_cuda, stream_ordered_neighbours_are_two)
{
    std::set<CUdeviceptr> all;
    unsigned pairs = 0;

    for (int i = 0; i < 8; ++i) {
        CUdeviceptr address = 0;
        GPU_CALL(cuMemAllocAsync, &address, 2 * mib, nullptr);
        all.insert(address);
    }
    for (CUdeviceptr address : all) {
        EXPECT_EQ(UCS_OK, describe(address, 2 * mib));
        EXPECT_EQ(UCS_ERR_INVALID_PARAM, describe(address, 2 * mib + 1));
        pairs += all.count(address + 2 * mib);
    }
    EXPECT_LT(0u, pairs);
    for (CUdeviceptr address : all) {
        GPU_CALL(cuMemFreeAsync, address, nullptr);
    }
}

// Between two questions.
TEST_F(test_cuda, memory_that_goes_meanwhile_is_no_cuda_memory)
{
    gpu::segments memory(1);

    for (auto error : {::CUDA_ERROR_INVALID_VALUE, ::CUDA_ERROR_NOT_FOUND}) {
        gpu::scoped_fail fail("cuMemGetAddressRange_v2=" +
                              std::to_string(static_cast<int>(error)));
        EXPECT_EQ(UCS_ERR_NO_ELEM, describe(memory.address(), 1)) << error;
    }
}

TEST_F(test_cuda, the_second_gpu_is_known)
{
    gpu::use(1);
    gpu::buffer buffer(2 * mib);
    gpu::use(0);

    ASSERT_EQ(UCS_OK, describe(buffer.address(), 1));
    EXPECT_EQ(1, found_.device);
}

TEST_F(test_cuda, exports_are_close_on_exec)
{
    gpu::buffer buffer(4 * mib);
    int fd = -1;

    ASSERT_EQ(UCS_OK,
              cuda_->export_range(buffer.address() + page, 2 * mib, &fd));
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}

TEST_F(test_cuda, exports_of_what_cannot_be_exported_fail)
{
    gpu::buffer buffer(4 * mib);
    CUdeviceptr managed = 0;
    const int before    = count_fds();
    int fd              = -2;

    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              cuda_->export_range(buffer.address() + 1, mib, &fd));
    EXPECT_NE(UCS_OK, cuda_->export_range(buffer.address(), mib + 1, &fd));
    GPU_CALL(cuMemAllocManaged, &managed, mib, CU_MEM_ATTACH_GLOBAL);
    EXPECT_NE(UCS_OK, cuda_->export_range(managed, mib, &fd));
    GPU_CALL(cuMemFree, managed);
    EXPECT_EQ(-2, fd) << "outputs are set only on success";
    EXPECT_EQ(before, count_fds());
}

// Also under the settings of behaviours.tap.
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

TEST_F(test_cuda, errors_of_the_driver_become_statuses)
{
    gpu::buffer buffer(4 * mib);
    const struct {
        ::CUresult error;
        ucs_status_t status;
    } cases[] = {
        {::CUDA_ERROR_NOT_SUPPORTED, UCS_ERR_UNSUPPORTED},
        {::CUDA_ERROR_OUT_OF_MEMORY, UCS_ERR_NO_MEMORY},
        {::CUDA_ERROR_INVALID_VALUE, UCS_ERR_INVALID_PARAM},
        {::CUDA_ERROR_UNKNOWN, UCS_ERR_IO_ERROR},
        {::CUDA_ERROR_INVALID_CONTEXT, UCS_ERR_BUSY}, // passes
        {::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, UCS_ERR_BUSY},
    };

    for (const auto &one : cases) {
        gpu::scoped_fail fail("cuMemGetHandleForAddressRange=" +
                              std::to_string(static_cast<int>(one.error)));
        int fd = -1;
        EXPECT_EQ(one.status, cuda_->export_range(buffer.address(), mib, &fd));
    }
}

TEST_F(test_cuda, gpus_without_dma_bufs_are_reported)
{
    text why;
    EXPECT_TRUE(cuda_->can_export(&why));

    gpu::scoped_fail fail("cuDeviceGetAttribute=801");
    EXPECT_FALSE(cuda_->can_export(&why));
    EXPECT_NE(nullptr, strstr(why.c_str(), "dma-buf")) << why.c_str();
}

TEST_F(test_cuda, copies_from_released_memory_fail)
{
    gpu::buffer buffer(4 * mib);
    const uintptr_t address = buffer.address();
    char byte               = 0;

    buffer.release();
    EXPECT_NE(UCS_OK, cuda_->copy_to_host(&byte, address, 1));
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
        {"n", "81920", SIZE_MAX}, // all of the memory
        {"y", "1000", SIZE_MAX},  // not reached through it
    };
    const char *was = getenv("CUDA_SIM_COHERENT");
    const std::string before(was ? was : "n");
    for (const auto &one : cases) {
        setenv("CUDA_SIM_COHERENT", one.coherent, 1);
        setenv("CUDA_SIM_BAR1_MIB", one.mib, 1);
        EXPECT_EXIT(_exit(cuda_->max_registered(0) == one.budget ? 0 : 1),
                    ::testing::ExitedWithCode(0), "")
            << one.mib;
    }
    setenv("CUDA_SIM_COHERENT", before.c_str(), 1);
    unsetenv("CUDA_SIM_BAR1_MIB");
}

} // namespace
