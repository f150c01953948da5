/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Functions of the simulated libcuda.so.1 for tests, beside the Driver API.
 * NVIDIA's driver has none of them: a program that is to run on both must look
 * them up with dlsym().
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
    /* Bytes copied from or to device memory, managed memory included. */
    uint64_t copied_bytes;
    /* Exports of device memory that succeeded. */
    uint64_t exports;
} cuda_sim_counters_t;

/* Copy this process's counters to 'counters'. */
void cuda_sim_counters(cuda_sim_counters_t *counters);

/* Returns the number of calls of the entry point 'name' in this process; 0 if
 * there is no such name. Versions count separately ("cuMemAlloc_v2"). NULL: the
 * sum over all entry points. */
uint64_t cuda_sim_calls(const char *name);

/* Makes calls fail, as CUDA_SIM_FAIL does: "name=error[:first[-last]],...".
 * Calls are numbered from 1, beginning with the first one after this call.
 * Replaces all earlier settings; "" or NULL clears them. Returns 0, or -1 (and
 * an error line) for a wrong setting, which changes nothing. */
int cuda_sim_set_fail(const char *spec);

/* Start and stop a kernel in the legacy stream, such as one that waits for a
 * message. A call that waits for that stream, or for a stream that waits for
 * it, waits for the kernel. The last function counts such calls. */
void cuda_sim_kernel_start(void);
void cuda_sim_kernel_stop(void);
uint64_t cuda_sim_kernel_waiters(void);

/* Returns 1 if exports are real dma-bufs, 0 if they are stand-ins (descriptors
 * of the memory file, positioned at the range's first byte). */
int cuda_sim_dmabuf_is_real(void);

/* Returns whether an export has the PCIe mapping. */
int cuda_sim_dmabuf_is_pcie(int fd);

#ifdef __cplusplus
}
#endif
