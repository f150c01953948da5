/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What librxe_dmabuf.so counts in a process: look the function up with dlsym().
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registrations of dma-bufs with soft-RoCE devices, whoever made them. */
typedef struct {
    uint64_t registrations; /* that succeeded, ever */
    uint64_t live;          /* those not yet deregistered: how many */
    uint64_t live_bytes;    /* and how much */
} rxe_dmabuf_counters_t;

/* Thread-safe. */
void rxe_dmabuf_counters(rxe_dmabuf_counters_t *counters);

/* From now on the NIC reaches nothing of what is registered, neither for this
 * process nor for others; the registrations stay. Returns how many there are,
 * -1 if that fails. Thread-safe. */
int rxe_dmabuf_revoke(void);

#ifdef __cplusplus
}
#endif
