// SPDX-License-Identifier: BSD-3-Clause
#include "gpu.h"

#include <set>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t unit = 2 * MiB;

class Vmm : public Gpu {
protected:
    static CUmemGenericAllocationHandle
    create(size_t size, const CUmemAllocationProp &p = gpu::properties())
    {
        CUmemGenericAllocationHandle handle = 0;
        EXPECT_CUDA(cuMemCreate(&handle, size, &p, 0));
        return handle;
    }

    static CUdeviceptr reserve(size_t size)
    {
        CUdeviceptr address = 0;
        EXPECT_CUDA(cuMemAddressReserve(&address, size, 0, 0, 0));
        return address;
    }

    static CUresult allow(CUdeviceptr address, size_t size, int device = 0)
    {
        const auto access = gpu::access(device);
        return cuMemSetAccess(address, size, &access, 1);
    }

    // Makes a reservation of two handles, with room after them.
    CUdeviceptr
    two_handles(const CUmemAllocationProp &second = gpu::properties())
    {
        CUdeviceptr base               = reserve(4 * unit);
        CUmemGenericAllocationHandle a = create(unit), b = create(unit, second);
        EXPECT_CUDA(cuMemMap(base, unit, 0, a, 0));
        EXPECT_CUDA(cuMemMap(base + unit, unit, 0, b, 0));
        EXPECT_CUDA(allow(base, 2 * unit));
        EXPECT_CUDA(cuMemRelease(a));
        EXPECT_CUDA(cuMemRelease(b));
        return base;
    }
};

TEST_F(Vmm, MapsAndUnmaps)
{
    CUdeviceptr base = two_handles();
    ASSERT_CUDA(cuMemsetD8(base, 'v', 2 * unit));
    EXPECT_EQ('v', download(base + 2 * unit - 1, 1)[0]);
    EXPECT_NE(CUDA_SUCCESS, cuMemsetD8(base, 'v', 2 * unit + 1));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, unit / 2));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, 3 * unit));
    ASSERT_CUDA(cuMemUnmap(base, 2 * unit));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base, 2 * unit));
    ASSERT_CUDA(cuMemAddressFree(base, 4 * unit));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 4 * unit));
}

TEST_F(Vmm, NeedsAccess)
{
    CUdeviceptr base = reserve(unit);
    auto handle      = create(unit);
    ASSERT_CUDA(cuMemMap(base, unit, 0, handle, 0));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(base, 0, 1));
    ASSERT_CUDA(allow(base, unit, 1));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(base, 0, 1));
    ASSERT_CUDA(allow(base, unit));
    EXPECT_CUDA(cuMemsetD8(base, 0, 1));
    ASSERT_CUDA(cuMemUnmap(base, unit));
    ASSERT_CUDA(cuMemRelease(handle));
}

TEST_F(Vmm, RefusesWrongMappings)
{
    CUdeviceptr base = reserve(2 * unit);
    auto handle      = create(unit);
    auto bad         = CUDA_ERROR_INVALID_VALUE;
    EXPECT_EQ(bad, cuMemMap(base, 2 * unit, 0, handle, 0));
    EXPECT_EQ(bad, cuMemMap(base, unit / 2, 0, handle, 0));
    EXPECT_EQ(bad, cuMemMap(base + 4096, unit, 0, handle, 0));
    EXPECT_EQ(bad, cuMemMap(base, unit, 0, handle + 1000, 0));
    // Beyond the end, where another reservation may begin.
    auto larger = create(2 * unit);
    EXPECT_EQ(bad, cuMemMap(base + unit, 2 * unit, 0, larger, 0));
    EXPECT_EQ(bad, cuMemMap(base, unit, unit, larger, 0)); // an offset
    ASSERT_CUDA(cuMemRelease(larger));
    ASSERT_CUDA(cuMemMap(base, unit, 0, handle, 0));
    EXPECT_EQ(bad, cuMemMap(base, unit, 0, handle, 0));
    CUmemGenericAllocationHandle none;
    CUmemAllocationProp p = gpu::properties();
    EXPECT_EQ(bad, cuMemCreate(&none, unit + 4096, &p, 0));
    EXPECT_EQ(bad, cuMemFree(base));
    ASSERT_CUDA(cuMemUnmap(base, unit));
    ASSERT_CUDA(cuMemRelease(handle));
    EXPECT_EQ(bad, cuMemRelease(handle));
}

TEST_F(Vmm, MemoryLivesUntilReleasedAndUnmapped)
{
    cuda_sim_counters_t start, now;
    cuda_sim_counters(&start);
    CUdeviceptr base = reserve(unit);
    auto handle      = create(unit);
    ASSERT_CUDA(cuMemMap(base, unit, 0, handle, 0));
    ASSERT_CUDA(allow(base, unit));
    ASSERT_CUDA(cuMemsetD8(base, 'k', unit));
    ASSERT_CUDA(cuMemRelease(handle));
    EXPECT_EQ('k', download(base, 1)[0]);
    cuda_sim_counters(&now);
    EXPECT_EQ(unit, now.device_bytes - start.device_bytes);
    // Makes another reference, through the address.
    CUmemGenericAllocationHandle again;
    ASSERT_CUDA(cuMemRetainAllocationHandle(
        &again, reinterpret_cast<void *>(base + 100)));
    ASSERT_CUDA(cuMemUnmap(base, unit));
    ASSERT_CUDA(cuMemMap(base, unit, 0, again, 0));
    ASSERT_CUDA(allow(base, unit));
    EXPECT_EQ('k', download(base, 1)[0]);
    ASSERT_CUDA(cuMemUnmap(base, unit));
    ASSERT_CUDA(cuMemRelease(again));
    cuda_sim_counters(&now);
    EXPECT_EQ(start.device_bytes, now.device_bytes);
}

TEST_F(Vmm, ReservedAddressesAnswerLittle)
{
    CUdeviceptr base = reserve(2 * unit);
    EXPECT_EQ(base, pointer_attribute<CUdeviceptr>(
                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + unit));
    unsigned type;
    EXPECT_EQ(
        CUDA_ERROR_INVALID_VALUE,
        cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
    ASSERT_CUDA(cuMemAddressFree(base, 2 * unit));
}

TEST_F(Vmm, RangeAttributesAreTheReservationsOrTheMappings)
{
    const bool whole = played("CUDA_SIM_RANGE", "reservation") == "reservation";
    CUdeviceptr base = two_handles();
    EXPECT_EQ(whole ? base : base + unit,
              pointer_attribute<CUdeviceptr>(
                  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + unit));
    EXPECT_EQ(whole ? 4 * unit : unit,
              pointer_attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        base + unit));
    ASSERT_CUDA(cuMemUnmap(base, 2 * unit));
    ASSERT_CUDA(cuMemAddressFree(base, 4 * unit));
}

TEST_F(Vmm, ExportWantsAlikeMemoryOfOneDevice)
{
    int fd;
    CUdeviceptr base = two_handles(gpu::properties(1));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, export_range(&fd, base, 2 * unit));
    base = two_handles(gpu::properties(0, false));
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, export_range(&fd, base, 2 * unit));
    for (CUdeviceptr at : {base, base + unit}) {
        ASSERT_CUDA(export_range(&fd, at, unit));
        close(fd);
    }
}

TEST_ALONE(Vmm, ExportWantsCapableMemory, "CUDA_SIM_INCAPABLE_EXPORT=n")
{
    int fd;
    CUdeviceptr base = two_handles(gpu::properties(0, false));
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, export_range(&fd, base + unit, unit));
    ASSERT_CUDA(export_range(&fd, base, unit));
    close(fd);
}

TEST_F(Vmm, ExportStaysInOneReservation)
{
    // Among many reservations some are adjacent.
    std::set<CUdeviceptr> all;
    CUdeviceptr low = 0;
    for (int i = 0; i < 64 && !low; ++i) {
        CUdeviceptr one = *all.insert(reserve(unit)).first;
        if (all.count(one - unit))
            low = one - unit;
    }
    ASSERT_NE(0u, low);
    for (CUdeviceptr at : {low, low + unit}) {
        auto handle = create(unit);
        ASSERT_CUDA(cuMemMap(at, unit, 0, handle, 0));
        ASSERT_CUDA(cuMemRelease(handle));
    }
    int fd;
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, export_range(&fd, low, 2 * unit));
    ASSERT_CUDA(export_range(&fd, low, unit));
    close(fd);
    ASSERT_CUDA(cuMemUnmap(low, 2 * unit));
    for (CUdeviceptr at : all)
        ASSERT_CUDA(cuMemAddressFree(at, unit));
}

} // namespace
} // namespace ucx_ib_dmabuf::test
