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
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return int(place_of(device).bus);
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        return int(place_of(device).domain);
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return 8;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
        return settings().dmabuf;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
        return settings().coherent;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
        return -1;
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        return settings().gb200 ? device / 2 : -1;
    default:
        return 0;
    }
}

bool is_attribute(CUdevice_attribute which)
{
    return which >= 1 && which < CU_DEVICE_ATTRIBUTE_MAX;
}

CUresult write(char *to, int length, CUdevice device, const std::string &text)
{
    if (CUresult error = check(to && length > int(text.size()), device))
        return error;
    memset(to, 0, size_t(length));
    memcpy(to, text.data(), text.size());
    return CUDA_SUCCESS;
}

std::string pci_address(CUdevice device)
{
    char text[32];
    const PciPlace at = place_of(device);
    snprintf(text, sizeof(text), "%04x:%02x:00.0", at.domain, at.bus);
    return text;
}

} // namespace

// clang-format off
SIM_ENTRY_IS(anytime, cuDriverGetVersion,
             give(version, int(settings().driver_version)), int *version)
SIM_ENTRY_IS(driver, cuDeviceGetCount, give(count, int(settings().devices)),
             int *count)
SIM_ENTRY_IS(driver, cuDeviceGet, give(device, ordinal, ordinal),
             CUdevice *device, int ordinal)
SIM_ENTRY_IS(driver, cuDeviceGetAttribute,
             give(is_attribute(which) ? value : nullptr, device,
                  attribute(which, device)),
             int *value, CUdevice_attribute which, CUdevice device)
SIM_ENTRY_IS(driver, cuDeviceTotalMem_v2,
             give(size, device, settings().memory_bytes),
             size_t *size, CUdevice device)
SIM_ENTRY_IS(driver, cuDeviceCanAccessPeer,
             give(can, valid_device(peer) ? device : peer, 0),
             int *can, CUdevice device, CUdevice peer)
#undef cuDeviceGetUuid
SIM_ENTRY_BOTH(driver, cuDeviceGetUuid, _v2,
               write(uuid->bytes, sizeof(uuid->bytes), device, gpu_name(device)),
               CUuuid *uuid, CUdevice device)
SIM_ENTRY_IS(driver, cuDeviceGetName, write(name, length, device, "Simulated GPU"),
             char *name, int length, CUdevice device)
SIM_ENTRY_IS(driver, cuDeviceGetPCIBusId, write(id, length, device, pci_address(device)),
             char *id, int length, CUdevice device)
// clang-format on

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
