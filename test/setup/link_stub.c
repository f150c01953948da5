/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What UCX's configure script looks for in libcuda, libcudart and
 * libnvidia-ml. A library of this, under each of the three names, is all that
 * UCX needs to be linked with; the machine may have CUDA's headers only. What
 * UCX finds when it runs is the simulated GPU or the real one.
 */
void cuDeviceGetUuid(void);
void cudaGetDeviceCount(void);
void nvmlInit(void);
void nvmlInit_v2(void);

void cuDeviceGetUuid(void) {}

void cudaGetDeviceCount(void) {}

void nvmlInit(void) {}

void nvmlInit_v2(void) {}
