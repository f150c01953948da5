// SPDX-License-Identifier: BSD-3-Clause
//
// The part of NVIDIA's management library that UCX and the plug-in call, with
// the layouts of the library's ABI (NVML API reference). NVIDIA's own header is
// in no package of Debian main.
#pragma once

enum nvmlReturn_t {
    NVML_SUCCESS                         = 0,
    NVML_ERROR_UNINITIALIZED             = 1,
    NVML_ERROR_INVALID_ARGUMENT          = 2,
    NVML_ERROR_NOT_SUPPORTED             = 3,
    NVML_ERROR_NOT_FOUND                 = 6,
    NVML_ERROR_DRIVER_NOT_LOADED         = 9,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

using nvmlDevice_t = struct nvmlDevice_st *;

inline constexpr unsigned NVML_NVLINK_MAX_LINKS         = 18;
inline constexpr unsigned NVML_FI_DEV_NVLINK_LINK_COUNT = 91;
inline constexpr unsigned NVML_VALUE_TYPE_UNSIGNED_INT  = 1;

struct nvmlPciInfo_t {
    char busIdLegacy[16];
    unsigned domain, bus, device;
    unsigned pciDeviceId, pciSubSystemId;
    char busId[32];
};

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

struct nvmlGpuFabricInfo_v2_t {
    unsigned version; // sizeof, with 2 in the highest byte
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
};
inline constexpr unsigned nvmlGpuFabricInfo_v2 =
    sizeof(nvmlGpuFabricInfo_v2_t) | 2U << 24;

extern "C" nvmlReturn_t nvmlInit(void);
