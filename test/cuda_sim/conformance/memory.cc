// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <unistd.h>

namespace ucx_ib_dmabuf::conformance {

uint64_t host_page()
{
    static const auto size = uint64_t(sysconf(_SC_PAGESIZE));
    return size;
}

CUresult export_range(int *fd, CUdeviceptr address, size_t size,
                      unsigned long long flags)
{
    *fd = -1;
    return GPU_TRY(cuMemGetHandleForAddressRange, fd, address, size,
                   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

CUresult try_export(CUdeviceptr address, size_t size, unsigned long long flags)
{
    int fd;
    CUresult result = export_range(&fd, address, size, flags);
    if (result == CUDA_SUCCESS)
        close(fd);
    return result;
}

unsigned long long buffer_id(CUdeviceptr address)
{
    unsigned long long id = 0;
    GPU_TRY(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
            address);
    return id;
}

long long number(CUpointer_attribute which, CUdeviceptr address)
{
    long long value = 0;
    return GPU_TRY(cuPointerGetAttribute, &value, which, address) ==
                   CUDA_SUCCESS
               ? value
               : -1;
}

size_t free_bytes()
{
    size_t left = 0, total = 0;
    GPU_TRY(cuMemGetInfo, &left, &total);
    return left;
}

CUresult copy_in(CUstream stream, CUdeviceptr address)
{
    char byte;
    const CUresult result =
        GPU_TRY(cuMemcpyDtoHAsync, &byte, address, 1, stream);
    return result == CUDA_SUCCESS ? GPU_TRY(cuStreamSynchronize, stream)
                                  : result;
}

CUresult copy_in_own_stream(CUdeviceptr address)
{
    CUstream stream;
    CUresult result = GPU_TRY(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    if (result != CUDA_SUCCESS)
        return result;
    result = copy_in(stream, address);
    GPU_TRY(cuStreamDestroy, stream);
    return result;
}

Mapping::Mapping(size_t handles, size_t backed, bool rdma)
    : count_(handles), properties_(gpu::properties(0, rdma)), mapped_(handles)
{
    valid_ = GPU_TRY(cuMemGetAllocationGranularity, &unit_, &properties_,
                     CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS &&
             GPU_TRY(cuMemAddressReserve, &base_, unit_ * handles, 0, 0, 0) ==
                 CUDA_SUCCESS;
    for (size_t i = 0; valid_ && i < backed; ++i)
        map(i);
}

Mapping::~Mapping()
{
    for (size_t i = 0; i < count_; ++i) {
        if (mapped_[i])
            GPU_TRY(cuMemUnmap, base_ + i * unit_, unit_);
    }
    if (base_)
        GPU_TRY(cuMemAddressFree, base_, unit_ * count_);
}

void Mapping::replace(size_t index)
{
    valid_ = valid_ &&
             GPU_TRY(cuMemUnmap, base_ + index * unit_, unit_) == CUDA_SUCCESS;
    mapped_[index] = false;
    if (valid_)
        map(index);
}

void Mapping::map(size_t index)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at    = base_ + index * unit_;
    const auto access = gpu::access();
    if (GPU_TRY(cuMemCreate, &handle, unit_, &properties_, 0) != CUDA_SUCCESS) {
        valid_ = false;
        return;
    }
    mapped_[index] = GPU_TRY(cuMemMap, at, unit_, 0, handle, 0) == CUDA_SUCCESS;
    valid_         = mapped_[index] &&
             GPU_TRY(cuMemSetAccess, at, unit_, &access, 1) == CUDA_SUCCESS;
    GPU_TRY(cuMemRelease, handle);
}

} // namespace ucx_ib_dmabuf::conformance
