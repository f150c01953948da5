// SPDX-License-Identifier: BSD-3-Clause
#include "../compat.h"
#include "calls.h"
#include "context.h"
#include "machine.h"

#include <cstdio>
#include <cstring>

using namespace ucx_ib_dmabuf::sim;

namespace {

int attribute(CUdevice_attribute which, CUdevice device)
{
    switch (int(which)) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        return 1024;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
        return 32;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        return 1410000;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return 108;
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS:
        return CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST;
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING:
        return CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return int(first_bus) + device;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
        return 3;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 8;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        return settings().dmabuf;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
        return settings().coherent;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        return -1;
    default:
        return 0;
    }
}

CUresult get_uuid(CUuuid *uuid, CUdevice device)
{
    if (CUresult error = check(uuid, device))
        return error;
    memset(uuid, 0, sizeof(*uuid));
    snprintf(uuid->bytes, sizeof(uuid->bytes), "cuda_sim-gpu%d", int(device));
    return CUDA_SUCCESS;
}

} // namespace

SIM_ENTRY(anytime, cuDriverGetVersion, int *version)
{
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = int(settings().driver_version);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuDeviceGetCount, int *count)
{
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = int(settings().devices);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuDeviceGet, CUdevice *device, int ordinal)
{
    if (CUresult error = check(device, ordinal))
        return error;
    *device = ordinal;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuDeviceGetAttribute, int *value, CUdevice_attribute which,
          CUdevice device)
{
    if (CUresult error = check(
            value && which >= 1 && which < CU_DEVICE_ATTRIBUTE_MAX, device))
        return error;
    *value = attribute(which, device);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuDeviceGetName, char *name, int length, CUdevice device)
{
    if (CUresult error = check(name && length > 0, device))
        return error;
    snprintf(name, size_t(length), "Simulated GPU");
    return CUDA_SUCCESS;
}

#undef cuDeviceGetUuid
SIM_ENTRY_BOTH(driver, cuDeviceGetUuid, _v2, get_uuid(uuid, device),
               CUuuid *uuid, CUdevice device)

SIM_ENTRY(driver, cuDeviceTotalMem_v2, size_t *size, CUdevice device)
{
    if (CUresult error = check(size, device))
        return error;
    *size = settings().memory_bytes;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuDeviceGetPCIBusId, char *id, int length, CUdevice device)
{
    if (CUresult error = check(id && length >= 13, device))
        return error;
    snprintf(id, size_t(length), "0000:%02x:00.0",
             first_bus + unsigned(device));
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(driver, cuFlushGPUDirectRDMAWrites, CUDA_SUCCESS,
             CUflushGPUDirectRDMAWritesTarget, CUflushGPUDirectRDMAWritesScope)

SIM_ENTRY(driver, cuDeviceCanAccessPeer, int *can, CUdevice device,
          CUdevice peer)
{
    if (CUresult error = check(can, valid_device(peer) ? device : peer))
        return error;
    *can = 0;
    return CUDA_SUCCESS;
}

SIM_ENTRY(context, cuMemGetInfo_v2, size_t *free_bytes, size_t *total)
{
    if (!free_bytes || !total)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    auto &device = *memory().devices[size_t(current_context()->device)];
    *total       = device.capacity;
    *free_bytes  = device.capacity - device.used;
    return CUDA_SUCCESS;
}
