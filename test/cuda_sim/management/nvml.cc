// SPDX-License-Identifier: BSD-3-Clause
//
// The part of NVIDIA's management library that UCX and the plug-in call, with
// the layouts of the library's ABI (NVML API reference). NVIDIA's own header is
// in no package of Debian main.
#include "../driver/machine.h"

#include <atomic>
#include <cstdio>

enum nvmlReturn_t {
    NVML_SUCCESS                 = 0,
    NVML_ERROR_UNINITIALIZED     = 1,
    NVML_ERROR_INVALID_ARGUMENT  = 2,
    NVML_ERROR_NOT_SUPPORTED     = 3,
    NVML_ERROR_NOT_FOUND         = 6,
    NVML_ERROR_DRIVER_NOT_LOADED = 9,
};

using nvmlDevice_t = struct nvmlDevice_st *;

struct nvmlBAR1Memory_t {
    unsigned long long bar1Total, bar1Free, bar1Used; // bytes
};

struct nvmlFieldValue_t {
    unsigned fieldId, scopeId;
    long long timestamp, latencyUsec;
    unsigned valueType;
    nvmlReturn_t nvmlReturn;
    union {
        double dVal;
        unsigned uiVal;
        unsigned long long ullVal;
    } value;
};

struct nvmlGpuFabricInfo_t {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
};

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
    for (int i = 0; i < int(settings().devices); ++i) {
        const PciPlace at = place_of(i);
        if (at.domain == domain && at.bus == bus) {
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
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

// Fields such as the number of NVLinks.
NVML_ENTRY nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count,
                                                 nvmlFieldValue_t *values)
{
    if (nvmlReturn_t error = check(device, count >= 0 && values))
        return error;
    for (int i = 0; i < count; ++i)
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
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

// UCX looks these up, but calls them only for NVLinks and for transfers that a
// GPU initiates.
#define NVML_UNUSED(_name)                                                     \
    NVML_ENTRY nvmlReturn_t _name(void)                                        \
    {                                                                          \
        return NVML_ERROR_NOT_SUPPORTED;                                       \
    }
NVML_UNUSED(nvmlDeviceGetCount_v2)
NVML_UNUSED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NVML_UNUSED(nvmlDeviceGetPciInfo_v3)
