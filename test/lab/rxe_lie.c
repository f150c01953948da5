/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "rxe_lie.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* What it is to do wrong; empty if nothing. */
static const char *lie_of(const char *device)
{
    const char *text   = getenv("RXE_DMABUF_LIE");
    const char *equals = (text == NULL) ? NULL : strchr(text, '=');

    if ((text == NULL) ||
        ((equals != NULL) && ((strlen(device) != (size_t)(equals - text)) ||
                              (strncmp(text, device, strlen(device)) != 0)))) {
        return "";
    }
    return (equals == NULL) ? text : equals + 1;
}

/* Memory that is nobody's, in the place of the dma-buf. It is never unmapped:
 * nobody tells such a region from others when it ends. */
static struct ibv_mr *reg_decoy(struct ibv_pd *pd, size_t length, uint64_t iova,
                                int access)
{
    struct ibv_mr *(*reg)(struct ibv_pd *, void *, size_t, uint64_t, int) =
        (struct ibv_mr * (*)(struct ibv_pd *, void *, size_t, uint64_t, int))
            dlsym(RTLD_NEXT, "ibv_reg_mr_iova");
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if ((reg == NULL) || (memory == MAP_FAILED)) {
        errno = ENOMEM;
        return NULL;
    }
    return reg(pd, memory, length, iova, access);
}

int rxe_lie(struct ibv_pd *pd, size_t length, uint64_t iova, int *access,
            struct ibv_mr **made)
{
    const char *lie = lie_of(ibv_get_device_name(pd->context->device));

    if (strcmp(lie, "decoy") == 0) {
        *made = reg_decoy(pd, length, iova, *access);
        return 1;
    } else if (strcmp(lie, "noread") == 0) {
        *access &= ~IBV_ACCESS_REMOTE_READ;
    } else if (strcmp(lie, "refuse") == 0) {
        *access &= IBV_ACCESS_LOCAL_WRITE;
    }
    return 0;
}
