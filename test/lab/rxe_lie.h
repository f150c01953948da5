/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of dma-bufs that lie, as on platforms on which peer-to-peer
 * does not work: the answer is that all went well.
 *   RXE_DMABUF_LIE=decoy          other memory is registered, zeros: what is
 *                                 written vanishes, what is read is stale
 *   RXE_DMABUF_LIE=noread         the device's reads of it fail, writes work
 *   RXE_DMABUF_LIE=refuse         all remote access fails
 *   RXE_DMABUF_LIE=rxe1=decoy     on that device only
 */
#ifndef TEST_LAB_RXE_LIE_H_
#define TEST_LAB_RXE_LIE_H_

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

/* 1: *made is registered in its place; NULL, and errno, if it could not be. 0:
 * it is to be registered, with the access that is left. */
int rxe_lie(struct ibv_pd *pd, size_t length, uint64_t iova, int *access,
            struct ibv_mr **made);

#endif
