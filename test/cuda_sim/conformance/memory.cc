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

} // namespace ucx_ib_dmabuf::conformance
