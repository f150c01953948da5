// SPDX-License-Identifier: BSD-3-Clause
//
// Mapped memory, and exports of device memory: dma-bufs in the lab, stand-ins
// elsewhere.
#include "gpu.h"

#include <common/fds.h>
#include <fcntl.h>
#include <sys/mman.h>

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
    constexpr size_t size = 4 * MiB;
    CUdeviceptr first     = allocate(size);
    ASSERT_CUDA(cuMemsetD8(first, 'o', size));
    int fd;
    ASSERT_CUDA(export_range(&fd, first, size));
    // A stand-in for a dma-buf is positioned at the range's first byte.
    const off_t at = cuda_sim_dmabuf_is_real() ? 0 : lseek(fd, 0, SEEK_CUR);
    void *mapped =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    ASSERT_NE(MAP_FAILED, mapped);
    close(fd);
    ASSERT_CUDA(cuMemFree(first));
    CUdeviceptr second = allocate(size);
    ASSERT_EQ(first, second);
    ASSERT_CUDA(cuMemsetD8(second, 'n', size));
    auto *old = static_cast<char *>(mapped);
    EXPECT_EQ('o', old[0]);
    EXPECT_EQ('o', old[size - 1]);
    memset(old, 'x', size);
    EXPECT_EQ(std::vector<char>(size, 'n'), download(second, size));
    munmap(mapped, size);
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
    std::map<CUdeviceptr, std::unique_ptr<gpu::segments>> all;
    int fd, neighbours = 0;
    for (int i = 0; i < 8; ++i) {
        auto made            = std::make_unique<gpu::segments>(1);
        all[made->address()] = std::move(made);
    }
    for (auto &[address, memory] : all) {
        ASSERT_CUDA(export_range(&fd, address, unit));
        close(fd);
        EXPECT_EQ(CUDA_ERROR_INVALID_VALUE,
                  export_range(&fd, address, 2 * unit));
        neighbours += int(all.count(address + unit));
    }
    EXPECT_GT(neighbours, 0);
}

} // namespace
} // namespace ucx_ib_dmabuf::test
