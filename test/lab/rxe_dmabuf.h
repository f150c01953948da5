/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The counters of librxe_dmabuf.so in a process. Look them up with dlsym().
 */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All registrations of dma-bufs with soft-RoCE devices in this process. */
typedef struct {
    uint64_t registrations; /* that succeeded, ever */
    uint64_t live;          /* number of those not yet deregistered */
    uint64_t live_bytes;    /* their bytes */
} rxe_dmabuf_counters_t;

/* Thread-safe. */
void rxe_dmabuf_counters(rxe_dmabuf_counters_t *counters);

/* Makes the NIC refuse every later access to registered memory, local or
 * remote. The registrations remain. Returns their number, or -1 if that fails.
 * Thread-safe. */
int rxe_dmabuf_revoke(void);

#ifdef __cplusplus
}
#endif
