// SPDX-License-Identifier: BSD-3-Clause
//
// cuMemGetHandleForAddressRange: dma-bufs of device memory.
#include "../compat.h"
#include "../cuda_sim.h"
#include "calls.h"
#include "context.h"
#include "machine.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace ucx_ib_dmabuf::sim {
namespace {

constexpr char udmabuf_path[] = "/dev/udmabuf";

struct Piece {
    Extent *extent;
    uint64_t offset; // in the memory file
    uint64_t size;
};

// Collects the parts of the memory file behind a range of addresses. The range
// may exceed the allocation within its block: callers round to pages, and small
// allocations share pages. Adjacent memory of one kind is exported at once, as
// on an H100: the caller must know what belongs together.
CUresult collect(CUdeviceptr address, uint64_t size, std::vector<Piece> &pieces)
{
    Block *first = memory().block_at(address);
    if (!first)
        return CUDA_ERROR_INVALID_VALUE;
    // CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED is 0.
    if (first->is_on_host() ||
        (first->kind == Kind::pool && settings().pool_export == Settings::none))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (first->kind == Kind::module || first->kind == Kind::opened ||
        (first->kind == Kind::pool && (address - first->base) % pool_chunk &&
         size < pool_chunk && settings().pool_export == Settings::chunk))
        return CUDA_ERROR_INVALID_VALUE;
    if (first->kind == Kind::vmm && !memory().reserved(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    while (size) {
        Block *block = memory().block_at(address);
        if (first->kind == Kind::pool &&
            (!block || block->kind != first->kind)) {
            complain("an export beyond a pool's last chunk");
            abort(); // the real driver crashes
        }
        if (!block)
            return CUDA_ERROR_INVALID_VALUE;
        if (block->kind == Kind::vmm) {
            if (!first->handle ||
                memcmp(&block->handle->properties, &first->handle->properties,
                       sizeof(CUmemAllocationProp)))
                return CUDA_ERROR_INVALID_VALUE;
        } else if (block->kind != first->kind ||
                   block->device != first->device) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        uint64_t inside = address - block->base;
        uint64_t length = std::min(size, block->size - inside);
        uint64_t offset = block->extent->offset + inside;
        pieces.push_back({block->extent.get(), offset, length});
        address += length;
        size -= length;
    }
    return CUDA_SUCCESS;
}

int device_fd()
{
    static const int fd = open(udmabuf_path, O_RDWR | O_CLOEXEC);
    return fd;
}

int make_dmabuf(int memory_fd, const std::vector<Piece> &pieces)
{
    std::vector<char> space(sizeof(udmabuf_create_list) +
                            pieces.size() * sizeof(udmabuf_create_item));
    auto *list  = reinterpret_cast<udmabuf_create_list *>(space.data());
    list->flags = UDMABUF_FLAGS_CLOEXEC;
    list->count = uint32_t(pieces.size());
    for (size_t i = 0; i < pieces.size(); ++i) {
        list->list[i].memfd  = uint32_t(memory_fd);
        list->list[i].offset = pieces[i].offset;
        list->list[i].size   = pieces[i].size;
    }
    return ioctl(device_fd(), UDMABUF_CREATE_LIST, list);
}

// Outside the lab there are no dma-bufs. A descriptor of the memory file can be
// counted and closed like one; it is positioned at the first byte.
int make_stand_in(int memory_fd, const std::vector<Piece> &pieces)
{
    std::string path = "/proc/self/fd/" + std::to_string(memory_fd);
    int fd           = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd >= 0)
        lseek(fd, off_t(pieces.front().offset), SEEK_SET);
    return fd;
}

// Without PCIe the mapping type has no effect. A flag of the open file that has
// no other meaning stores it.
void mark_pcie(int fd)
{
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

CUresult export_pieces(int *out, int device, const std::vector<Piece> &pieces,
                       uint64_t size, bool pcie)
{
    // A coherent GPU's standard mapping uses its link.
    bool bar1 = pcie || !settings().coherent;
    // Listing takes time, and a BAR1 larger than the memory cannot run out
    // unless freed memory is held.
    if (bar1 && settings().bar1_bytes <= settings().memory_bytes &&
        size > bar1_free(device))
        return CUDA_ERROR_OUT_OF_MEMORY;
    int memory_fd = memory().devices[size_t(device)]->fd;
    bool real     = device_fd() >= 0;
    int fd        = real ? make_dmabuf(memory_fd, pieces)
                         : make_stand_in(memory_fd, pieces);
    if (fd < 0) {
        int error = errno;
        complain("cannot export %llu bytes in %zu pieces: %s",
                 (unsigned long long)size, pieces.size(), strerror(error));
        return error == ENOMEM || error == EMFILE ? CUDA_ERROR_OUT_OF_MEMORY
                                                  : CUDA_ERROR_UNKNOWN;
    }
    if (real && bar1)
        ioctl(fd, DMA_BUF_SET_NAME, gpu_name(device).c_str());
    if (pcie)
        mark_pcie(fd);
    for (const Piece &piece : pieces) {
        if (!real)
            piece.extent->stand_in = true;
    }
    ++exports;
    *out = fd;
    return CUDA_SUCCESS;
}

uint64_t known_flags()
{
    return settings().driver_version < 12080
               ? 0
               : CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE;
}

bool aligned(uint64_t value)
{
    return value % uint64_t(sysconf(_SC_PAGESIZE)) == 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(driver, cuMemGetHandleForAddressRange, void *handle,
          CUdeviceptr address, size_t size, CUmemRangeHandleType type,
          unsigned long long flags)
{
    if (!settings().dmabuf)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (!handle || !size || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        !aligned(address) || !aligned(size) || address + size < address ||
        (flags & ~known_flags()))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags && !settings().coherent)
        return CUDA_ERROR_NOT_SUPPORTED;
    std::shared_lock guard(memory().lock);
    std::vector<Piece> pieces;
    CUresult result = collect(address, size, pieces);
    if (result == CUDA_SUCCESS)
        result = need_context_of(memory().block_at(address)->device,
                                 CUDA_ERROR_INVALID_VALUE);
    if (result != CUDA_SUCCESS)
        return result;
    return export_pieces(static_cast<int *>(handle),
                         memory().block_at(address)->device, pieces, size,
                         flags != 0);
}

extern "C" SIM_PUBLIC int cuda_sim_dmabuf_is_pcie(int fd)
{
    return (fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

extern "C" SIM_PUBLIC int cuda_sim_dmabuf_is_real(void)
{
    return device_fd() >= 0;
}
