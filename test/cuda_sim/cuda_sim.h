/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What the simulated libcuda.so.1 offers to tests beside the Driver API. None
 * of this exists in NVIDIA's driver: look the functions up with dlsym() in a
 * program that is to run on both.
 *
 * All functions are thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    /* Bytes moved by copies, by direction. Managed memory counts as device
     * memory. */
    uint64_t h2d_bytes;
    uint64_t d2h_bytes;
    uint64_t d2d_bytes;
    uint64_t h2h_bytes;
    uint64_t memset_bytes;
    /* Exports of device memory that succeeded, and their bytes. */
    uint64_t exports;
    uint64_t exported_bytes;
    /* Bytes of device memory behind what is allocated now. */
    uint64_t device_bytes;
} cuda_sim_counters_t;

/* Copy this process's counters to 'counters'. */
void cuda_sim_counters(cuda_sim_counters_t *counters);

/* How often the entry point 'name' was called in this process; 0 for names
 * that do not exist. Versions count separately ("cuMemAlloc_v2"). Of NULL: all
 * entry points together. */
uint64_t cuda_sim_calls(const char *name);

/* As CUDA_SIM_FAIL: "name=error[:first[-last]],...". Calls are numbered from 1,
 * beginning with the first one after this call. Replaces all earlier settings;
 * "" or NULL clears them. Returns 0, or -1 (and an error line) for a wrong
 * setting, which changes nothing. */
int cuda_sim_set_fail(const char *spec);

/* Read and write device memory as a kernel would: no call and no byte is
 * counted, no context is needed. Returns 0, or -1 where [address, address +
 * length) is not all device memory. */
int cuda_sim_peek(void *buffer, uint64_t address, size_t length);
int cuda_sim_poke(uint64_t address, const void *buffer, size_t length);

/* A kernel in the legacy stream that runs until it is told to stop, as one does
 * that waits for a message. Work that a program waits for in that stream, or in
 * one that waits for it, waits as well: how many calls do. */
void cuda_sim_kernel_start(void);
void cuda_sim_kernel_stop(void);
uint64_t cuda_sim_kernel_waiters(void);

/* Whether exports are real dma-bufs: 1, or 0 for the stand-in (a descriptor of
 * the memory file, positioned at the range's first byte). */
int cuda_sim_dmabuf_is_real(void);

/* Whether an export is in PCIe mapping. */
int cuda_sim_dmabuf_is_pcie(int fd);

#ifdef __cplusplus
}
#endif
