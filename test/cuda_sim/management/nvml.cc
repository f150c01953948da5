// SPDX-License-Identifier: BSD-3-Clause
#include "nvml.h"
#include "../driver/machine.h"

#include <atomic>
#include <cstdio>
#include <cstring>

struct nvmlDevice_st {
    int index;
};

namespace {

using namespace ucx_ib_dmabuf::sim;

nvmlDevice_st devices[16];
std::atomic<int> users{0};

// The result of a call, given whether its other arguments are right.
nvmlReturn_t check(bool arguments)
{
    return !users      ? NVML_ERROR_UNINITIALIZED
           : arguments ? NVML_SUCCESS
                       : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t check(nvmlDevice_t device, bool arguments)
{
    return check(arguments && device >= devices &&
                 device < devices + settings().devices);
}

void fill(nvmlPciInfo_t *pci, unsigned bus)
{
    memset(pci, 0, sizeof(*pci));
    pci->bus = bus;
    snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", bus);
    snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", bus);
}

} // namespace

#define NVML_ENTRY extern "C" __attribute__((visibility("default")))

NVML_ENTRY nvmlReturn_t nvmlInit_v2(void)
{
    if (settings().devices == 0)
        return NVML_ERROR_DRIVER_NOT_LOADED;
    for (int i = 0; i < 16; ++i)
        devices[i].index = i;
    ++users;
    return NVML_SUCCESS;
}

// UCX's configure looks for this function.
NVML_ENTRY nvmlReturn_t nvmlInit(void)
{
    return nvmlInit_v2();
}

NVML_ENTRY nvmlReturn_t nvmlShutdown(void)
{
    if (users <= 0)
        return NVML_ERROR_UNINITIALIZED;
    --users;
    return NVML_SUCCESS;
}

NVML_ENTRY const char *nvmlErrorString(nvmlReturn_t result)
{
    return result == NVML_SUCCESS ? "Success" : "NVML error";
}

NVML_ENTRY nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
    if (nvmlReturn_t error = check(count))
        return error;
    *count = unsigned(settings().devices);
    return NVML_SUCCESS;
}

NVML_ENTRY nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index,
                                                      nvmlDevice_t *device)
{
    if (nvmlReturn_t error = check(device && index < settings().devices))
        return error;
    *device = &devices[index];
    return NVML_SUCCESS;
}

NVML_ENTRY nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id,
                                                         nvmlDevice_t *device)
{
    unsigned domain = 0, bus = 0;
    if (nvmlReturn_t error =
            check(id && device && sscanf(id, "%x:%x:", &domain, &bus) == 2))
        return error;
    if (domain || bus < first_bus || bus - first_bus >= settings().devices)
        return NVML_ERROR_NOT_FOUND;
    *device = &devices[bus - first_bus];
    return NVML_SUCCESS;
}

NVML_ENTRY nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device,
                                                    nvmlBAR1Memory_t *memory)
{
    if (nvmlReturn_t error = check(device, memory))
        return error;
    memory->bar1Total = settings().bar1_bytes;
    memory->bar1Used  = bar1_used(device->index);
    memory->bar1Free  = bar1_free(device->index);
    return NVML_SUCCESS;
}

NVML_ENTRY nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                 nvmlFieldValue_t *values)
{
    if (nvmlReturn_t error = check(device, count >= 0 && values))
        return error;
    for (int i = 0; i < count; ++i) {
        if (values[i].fieldId == NVML_FI_DEV_NVLINK_LINK_COUNT) {
            values[i].valueType   = NVML_VALUE_TYPE_UNSIGNED_INT;
            values[i].value.uiVal = NVML_NVLINK_MAX_LINKS;
            values[i].nvmlReturn  = NVML_SUCCESS;
        } else {
            values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
        }
    }
    return NVML_SUCCESS;
}

// Every link leads to a switch.
NVML_ENTRY nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device,
                                                            unsigned link,
                                                            nvmlPciInfo_t *pci)
{
    if (nvmlReturn_t error = check(device, pci && link < NVML_NVLINK_MAX_LINKS))
        return error;
    fill(pci, 0xe0 + link);
    return NVML_SUCCESS;
}

NVML_ENTRY nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device,
                                                nvmlPciInfo_t *pci)
{
    if (nvmlReturn_t error = check(device, pci))
        return error;
    fill(pci, unsigned(first_bus + device->index));
    return NVML_SUCCESS;
}

// The GPUs belong to no fabric that spans machines: the state is 0.
NVML_ENTRY nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device,
                                                   nvmlGpuFabricInfo_t *info)
{
    if (nvmlReturn_t error = check(device, info))
        return error;
    *info = {};
    return NVML_SUCCESS;
}

NVML_ENTRY nvmlReturn_t
nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t *info)
{
    if (nvmlReturn_t error = check(device, info))
        return error;
    if (info->version != nvmlGpuFabricInfo_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    *info = {nvmlGpuFabricInfo_v2, {}, NVML_SUCCESS, 0, 0, 0};
    return NVML_SUCCESS;
}
