/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions of the management library that UCX calls from 1.19 on, beyond
 * nvml.h, with the layouts of the library's ABI.
 */
#ifndef CUDA_SIM_NVML_NEWER_H_
#define CUDA_SIM_NVML_NEWER_H_

#include "nvml.h"

#define NVML_ERROR_ARGUMENT_VERSION_MISMATCH ((nvmlReturn_t)25)
#define NVML_GPU_FABRIC_UUID_LEN             16
#define NVML_GPU_FABRIC_STATE_NOT_SUPPORTED  0

typedef struct nvmlGpuFabricInfo_st {
    unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;

typedef struct nvmlGpuFabricInfo_v2_st {
    unsigned int version; /* sizeof, and in the highest byte 2 */
    unsigned char clusterUuid[NVML_GPU_FABRIC_UUID_LEN];
    nvmlReturn_t status;
    unsigned int cliqueId;
    unsigned char state;
    unsigned int healthMask;
} nvmlGpuFabricInfo_v2_t;

#define nvmlGpuFabricInfo_v2 \
    ((unsigned)(sizeof(nvmlGpuFabricInfo_v2_t) | (2U << 24)))

#ifdef __cplusplus
extern "C" {
#endif

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device,
                                        nvmlGpuFabricInfo_t *info);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device,
                                         nvmlGpuFabricInfo_v2_t *info);

#ifdef __cplusplus
}
#endif

#endif
