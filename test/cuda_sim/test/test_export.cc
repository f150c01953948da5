// SPDX-License-Identifier: BSD-3-Clause
//
// Mapped memory, and exports of device memory: dma-bufs in the lab, stand-ins
// elsewhere.
#include "gpu.h"

#include <common/fds.h>
#include <fcntl.h>
#include <set>

namespace ucx_ib_dmabuf::test {
namespace {

using Export = Gpu;

TEST_F(Export, IsARealDmabufOrSaysSo)
{
    CUdeviceptr address = allocate(2 * MiB);
    int fd;
    ASSERT_CUDA(export_range(&fd, address, 2 * MiB));
    EXPECT_EQ(cuda_sim_dmabuf_is_real(), count_fds("/dmabuf:"));
    EXPECT_EQ(access("/dev/udmabuf", R_OK | W_OK) == 0,
              cuda_sim_dmabuf_is_real() != 0);
    EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    if (cuda_sim_dmabuf_is_real()) {
        EXPECT_EQ(off_t(2 * MiB), lseek(fd, 0, SEEK_END));
    }
    close(fd);
}

// The hazard that registration caches must handle.
TEST_F(Export, OldMemoryOutlivesItsAllocation)
{
    CUdeviceptr first = allocate(4 * MiB);
    ASSERT_CUDA(cuMemsetD8(first, 'o', 4 * MiB));
    int fd;
    ASSERT_CUDA(export_range(&fd, first, 4 * MiB));
    Import import(fd, 4 * MiB);
    ASSERT_CUDA(cuMemFree(first));
    CUdeviceptr second = allocate(4 * MiB);
    ASSERT_EQ(first, second);
    ASSERT_CUDA(cuMemsetD8(second, 'n', 4 * MiB));
    EXPECT_EQ('o', import.data()[0]);
    EXPECT_EQ('o', import.data()[4 * MiB - 1]);
    memset(import.data(), 'x', 4 * MiB);
    EXPECT_EQ(std::vector<char>(4 * MiB, 'n'), download(second, 4 * MiB));
}

TEST_ALONE(Export, WithoutSupport, "CUDA_SIM_DMABUF=none")
{
    CUdeviceptr address = allocate(2 * MiB);
    int fd, supported = 1;
    EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, export_range(&fd, address, 4096));
    EXPECT_CUDA(cuDeviceGetAttribute(&supported,
                                     CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    EXPECT_EQ(0, supported);
}

TEST_ALONE(Export, PcieMapping,
           "CUDA_SIM_COHERENT=y CUDA_SIM_BAR1_MIB=16 "
           "CUDA_SIM_BAR1_LIST=/nonexistent")
{
    constexpr auto pcie = CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE;
    CUdeviceptr address = allocate(64 * MiB);
    int fd;
    ASSERT_CUDA(export_range(&fd, address, 16 * MiB, pcie));
    close(fd);
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
              export_range(&fd, address, 17 * MiB, pcie));
    // This mapping uses the link.
    ASSERT_CUDA(export_range(&fd, address, 17 * MiB));
    close(fd);
}

// The list has dma-bufs of 8 MiB on this GPU; others do not count.
TEST_F(Export, DISABLED_PartOfBar1IsTaken)
{
    CUdeviceptr address = allocate(64 * MiB);
    int fd;
    EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, export_range(&fd, address, 9 * MiB));
    ASSERT_CUDA(export_range(&fd, address, 8 * MiB));
    close(fd);
}

TEST(ExportSettings, PartOfBar1IsTaken)
{
    char name[] = "/tmp/cuda_sim-list.XXXXXX";
    FILE *list  = fdopen(mkstemp(name), "w");
    ASSERT_NE(nullptr, list);
    fputs("\nDma-buf Objects:\n"
          "size    \tflags   \tmode    \tcount   \texp_name\tino     \tname\n"
          "06291456\t00000002\t00080007\t00000002\tudmabuf\t00000041\t"
          "cuda_sim-gpu0\n"
          "\tAttached Devices:\n\trxe0\nTotal 1 devices attached\n\n"
          "02097152\t00000002\t00080007\t00000001\tudmabuf\t00000042\t"
          "cuda_sim-gpu0\n"
          "\tAttached Devices:\nTotal 0 devices attached\n\n"
          "16777216\t00000002\t00080007\t00000001\tudmabuf\t00000043\t"
          "cuda_sim-gpu1\n"
          "16777216\t00000002\t00080007\t00000001\tsystem\t00000044\t<none>\n"
          "\nTotal 4 objects, 41943040 bytes\n",
          list);
    fclose(list);
    EXPECT_EQ(
        0, run_alone(
               "CUDA_SIM_COHERENT=n CUDA_SIM_BAR1_MIB=16 CUDA_SIM_BAR1_LIST=" +
                   std::string(name),
               "Export.DISABLED_PartOfBar1IsTaken"));
    unlink(name);
}

constexpr size_t unit = 2 * MiB;

class Vmm : public Gpu {
protected:
    static CUmemGenericAllocationHandle create(size_t size)
    {
        const CUmemAllocationProp p         = gpu::properties();
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
};

TEST_F(Vmm, MapsAndUnmaps)
{
    CUdeviceptr base = reserve(4 * unit);
    for (CUdeviceptr at : {base, base + unit}) {
        auto handle = create(unit);
        ASSERT_CUDA(cuMemMap(at, unit, 0, handle, 0));
        ASSERT_CUDA(cuMemRelease(handle));
    }
    ASSERT_CUDA(allow(base, 2 * unit));
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
    const size_t before = free_bytes();
    CUdeviceptr base    = reserve(unit);
    auto handle         = create(unit);
    ASSERT_CUDA(cuMemMap(base, unit, 0, handle, 0));
    ASSERT_CUDA(allow(base, unit));
    ASSERT_CUDA(cuMemsetD8(base, 'k', unit));
    ASSERT_CUDA(cuMemRelease(handle));
    EXPECT_EQ('k', download(base, 1)[0]);
    EXPECT_EQ(unit, before - free_bytes());
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
    EXPECT_EQ(before, free_bytes());
}

TEST_F(Vmm, ReservedAddressesAnswerLittle)
{
    CUdeviceptr base = reserve(2 * unit);
    EXPECT_EQ(base, pointer_attribute<CUdeviceptr>(
                        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + unit));
    unsigned value;
    EXPECT_EQ(
        CUDA_ERROR_INVALID_VALUE,
        cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
    ASSERT_CUDA(cuMemAddressFree(base, 2 * unit));
}

TEST_F(Vmm, RangeAttributesAreTheReservationsOrTheMappings)
{
    const bool whole = played("CUDA_SIM_RANGE", "reservation") == "reservation";
    const gpu::segments mapping(4, 0, true, 2);
    const CUdeviceptr base = mapping.address();
    EXPECT_EQ(whole ? base : base + unit,
              pointer_attribute<CUdeviceptr>(
                  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + unit));
    EXPECT_EQ(whole ? 4 * unit : unit,
              pointer_attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                        base + unit));
}

TEST_F(Vmm, ExportWantsAlikeMemoryOfOneDevice)
{
    int fd;
    gpu::segments mapping(2);
    const CUdeviceptr base = mapping.address();
    mapping.remap(1, 1);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, export_range(&fd, base, 2 * unit));
    mapping.remap(1, 0, false);
    EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, export_range(&fd, base, 2 * unit));
    for (CUdeviceptr at : {base, base + unit}) {
        ASSERT_CUDA(export_range(&fd, at, unit));
        close(fd);
    }
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
