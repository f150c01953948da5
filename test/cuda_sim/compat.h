// SPDX-License-Identifier: BSD-3-Clause
//
// Names that CUDA's headers before 13.0 may lack. Headers from 12.0 on will do.
#pragma once

#include <cuda.h>

#if CUDA_VERSION < 12080
struct CUmemcpyAttributes;
#endif

#if CUDA_VERSION < 13000
extern "C" CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *, CUdeviceptr *,
                                          size_t *, size_t,
                                          CUmemcpyAttributes *, size_t *,
                                          size_t, CUstream);
#define CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE      0x1
#define CU_DEVICE_ATTRIBUTE_NUMA_ID                      CUdevice_attribute(131)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID                 CUdevice_attribute(134)
#define CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED CUdevice_attribute(146)
#define CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED      \
    CUdevice_attribute(141)
#define CU_MEM_LOCATION_TYPE_HOST_NUMA CUmemLocationType(3)
#endif
