// SPDX-License-Identifier: BSD-3-Clause
//
// Which ranges can be exported as dma-bufs.
#include "conformance.h"

#include <fcntl.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::conformance {
namespace {

bool supported()
{
    int value = 0;
    GPU_TRY(cuDeviceGetAttribute, &value, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
            0);
    if (!value)
        observe("dma-bufs", "not supported, nothing to check");
    return value != 0;
}

enum class Exported { yes, no, open };

// Prints whether a kind of memory can be exported, and its RDMA_CAPABLE
// attribute.
void kind(const char *name, CUdeviceptr address, size_t size, Exported claimed)
{
    uint64_t page     = host_page();
    CUdeviceptr start = address / page * page;
    size_t length     = (address + size - start + page - 1) / page * page;
    CUresult result   = try_export(start, length);
    std::string seen =
        name_of(result) + ", RDMA_CAPABLE " +
        std::to_string(
            number(CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, address));
    if (claimed == Exported::open)
        observe(name, seen);
    else
        claim((result == CUDA_SUCCESS) == (claimed == Exported::yes),
              std::string(name) +
                  (claimed == Exported::yes ? " exports" : " does not export"),
              seen);
}

void of_size(const char *name, size_t size)
{
    const gpu::buffer memory(size);
    kind(name, memory.address(), size, Exported::yes);
}

void mapped(const char *name, unsigned handles, bool rdma, Exported claimed)
{
    const gpu::segments memory(handles, 0, rdma);
    kind(name, memory.address(), memory.size(), claimed);
}

void whole_pages()
{
    gpu::buffer memory(4 * MiB);
    const CUdeviceptr address = memory.address();
    const uint64_t page       = host_page();
    const auto bad            = CUDA_ERROR_INVALID_VALUE;
    claim_result(CUDA_SUCCESS, try_export(address + page, page),
                 "one page in the middle");
    claim_result(bad, try_export(address + 512, page),
                 "an address that is not at a page");
    claim_result(bad, try_export(address, page + 512),
                 "a length that is not of pages");
    claim_refused(try_export(address, 0), "no length");
    claim_refused(try_export(address, 4 * MiB + 64 * MiB),
                  "beyond the allocation");
    claim_refused(try_export(address, page, 1ull << 40), "an unknown flag");
    observe("the PCIe mapping",
            name_of(try_export(address, page,
                               CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)));
    int fd;
    if (export_range(&fd, address, 4 * MiB) == CUDA_SUCCESS) {
        claim(fcntl(fd, F_GETFD) & FD_CLOEXEC, "descriptors are O_CLOEXEC");
        close(fd);
    }
    memory.release();
    claim_refused(try_export(address, page), "after the memory was freed");
}

void two_allocations()
{
    const gpu::buffer a(4 * MiB), b(4 * MiB);
    const auto [low, high] = std::minmax({a.address(), b.address()});
    if (low + 4 * MiB == high)
        claim_result(CUDA_SUCCESS, try_export(low, 8 * MiB),
                     "two neighbouring allocations at once");
    else
        observe("two allocations", "not neighbours, nothing to check");
}

} // namespace

void check_kinds()
{
    section("kinds of memory");
    if (!supported())
        return;
    of_size("cuMemAlloc of 1 byte", 1);
    of_size("cuMemAlloc of 64 KiB", 64 * KiB);
    of_size("cuMemAlloc of 2 MiB", 2 * MiB);
    of_size("cuMemAlloc of 3 MiB + 1", 3 * MiB + 1);
    of_size("cuMemAlloc of 256 MiB", 256 * MiB);
    CUdeviceptr address;
    size_t pitch;
    if (GPU_TRY(cuMemAllocPitch, &address, &pitch, 1000, 1000, 4) ==
        CUDA_SUCCESS) {
        kind("cuMemAllocPitch", address, pitch * 1000, Exported::yes);
        GPU_TRY(cuMemFree, address);
    }
    mapped("cuMemMap of one handle", 1, true, Exported::yes);
    mapped("cuMemMap of four handles", 4, true, Exported::yes);
    mapped("cuMemMap without gpuDirectRDMACapable", 1, false, Exported::open);
    int host = 0;
    GPU_TRY(cuDeviceGetAttribute, &host,
            CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0);
    const gpu::buffer pooled(2 * MiB, gpu::memory::pool),
        managed(2 * MiB, gpu::memory::managed),
        pinned(2 * MiB, gpu::memory::pinned);
    kind("cuMemAllocAsync", pooled.address(), 2 * MiB, Exported::open);
    kind("cuMemAllocManaged", managed.address(), 2 * MiB, Exported::no);
    kind("cuMemHostAlloc", pinned.address(), 2 * MiB,
         host ? Exported::open : Exported::no);
}

void check_exports()
{
    section("ranges");
    if (!supported())
        return;
    whole_pages();
    two_allocations();
    const gpu::segments partly(4, 0, true, 2);
    const size_t unit         = partly.step();
    const CUdeviceptr halfway = partly.address() + unit / 2;
    claim_result(CUDA_SUCCESS, try_export(halfway, unit),
                 "parts of two handles");
    claim_refused(try_export(partly.address(), partly.size()),
                  "addresses of which some have no memory");
    observe("a page in the middle of a handle",
            name_of(try_export(halfway, host_page())));
    observe("the second half of a handle",
            name_of(try_export(halfway, unit / 2)));
}

} // namespace ucx_ib_dmabuf::conformance
