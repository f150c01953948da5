/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A preload library for the lab: ibv_reg_dmabuf_mr() for soft-RoCE. The lab's
 * kernel lets soft-RoCE import dma-bufs, but rdma-core's provider for it lacks
 * the call. This library sends the request to the kernel, as other providers
 * do. Other devices get EOPNOTSUPP.
 *
 * It can also make registrations fail, for tests:
 *   RXE_DMABUF_FAIL=ENOMEM        all of them, also capability probes (fd < 0)
 *   RXE_DMABUF_FAIL=ENOMEM:2      the second only; probes are not counted
 *   RXE_DMABUF_FAIL=ENOMEM:2-4    second to fourth
 *   RXE_DMABUF_FAIL=ENOMEM:2-     all from the second on
 *   RXE_DMABUF_FAIL=rxe1=ENOMEM   as above, on that device only; it may be a
 *                                 pattern, rxe[13]
 * The error is a name or a number. Counting starts anew when the text changes.
 *
 *   RXE_DMABUF_ROOM=BYTES         ENOMEM if this process's registrations would
 *                                 exceed that size, as with a full BAR1
 *
 * rxe_dmabuf_revoke() makes all later accesses to registered memory fail, as
 * after an exporter has revoked a dma-buf.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include "rxe_dmabuf.h"

/* rdma-core's struct behind an ibv_mr (libibverbs/driver.h, not installed as an
 * interface). Providers free it in dereg_mr. */
struct verbs_mr {
    struct ibv_mr ibv_mr;
    int mr_type; /* enum ibv_mr_type */
    int access;
};

/* Our struct; providers see its first member only. */
struct known_mr {
    struct verbs_mr super;
    struct known_mr *next;
};

enum { MR_TYPE_DMABUF = 3, ATTRIBUTES = 9 };

struct request {
    struct ib_uverbs_ioctl_hdr header;
    struct ib_uverbs_attr attrs[ATTRIBUTES];
};

static void add(struct request *request, int id, int length, uint64_t data)
{
    struct ib_uverbs_attr *attr = &request->attrs[request->header.num_attrs++];

    attr->attr_id = id;
    attr->len     = length;
    attr->flags   = UVERBS_ATTR_F_MANDATORY;
    attr->data    = data;
}

static int reg_in_kernel(struct ibv_pd *pd, uint64_t offset, size_t length,
                         uint64_t iova, int fd, int access, struct ibv_mr *mr)
{
    struct request request;

    memset(&request, 0, sizeof(request));
    request.header.object_id = UVERBS_OBJECT_MR;
    request.header.method_id = UVERBS_METHOD_REG_DMABUF_MR;
    request.header.driver_id = RDMA_DRIVER_RXE;
    request.header.length    = sizeof(request);

    /* The handle must come first: it is read from attrs[0]. */
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_HANDLE, 0, 0);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, 0, pd->handle);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_OFFSET, 8, offset);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_LENGTH, 8, length);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_IOVA, 8, iova);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_FD, 4, (unsigned)fd);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS, 4, (unsigned)access);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, 4, (uintptr_t)&mr->lkey);
    add(&request, UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, 4, (uintptr_t)&mr->rkey);

    if (ioctl(pd->context->cmd_fd, RDMA_VERBS_IOCTL, &request) < 0) {
        return errno;
    }

    mr->handle = request.attrs[0].data;
    return 0;
}

static int error_number(const char *text)
{
    int number;

    for (number = 1; number < 134; ++number) {
        const char *name = strerrorname_np(number);
        if ((name != NULL) && (strcmp(name, text) == 0)) {
            return number;
        }
    }

    return atoi(text);
}

/* Returns this registration's number since RXE_DMABUF_FAIL last changed. */
static unsigned long count_registration(const char *text)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char counted[64];
    static unsigned long count;
    unsigned long number;

    pthread_mutex_lock(&mutex);
    if (strncmp(counted, text, sizeof(counted) - 1) != 0) {
        strncpy(counted, text, sizeof(counted) - 1);
        count = 0;
    }
    number = ++count;
    pthread_mutex_unlock(&mutex);
    return number;
}

/* Returns the error with which this call must fail, or 0. */
static int injected_error(const char *device, int fd)
{
    const char *text    = getenv("RXE_DMABUF_FAIL");
    const char *equals  = (text == NULL) ? NULL : strchr(text, '=');
    unsigned long first = 0;
    unsigned long last  = 0;
    char name[32], pattern[32], dash = 0;
    unsigned long number;
    int fields;

    if (text == NULL) {
        return 0;
    }
    if (equals != NULL) {
        snprintf(pattern, sizeof(pattern), "%.*s", (int)(equals - text), text);
        if (fnmatch(pattern, device, 0) != 0) {
            return 0;
        }
        text = equals + 1;
    }

    fields = sscanf(text, "%31[^:]:%lu%c%lu", name, &first, &dash, &last);
    if (fields == 1) {
        return error_number(name);
    } else if ((fields < 1) || (fd < 0)) {
        return 0;
    }

    if (fields == 2) {
        last = first;
    } else if (fields == 3) {
        last = -1ul;
    }
    number = count_registration(text);
    return (number >= first) && (number <= last) ? error_number(name) : 0;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of these two */
static rxe_dmabuf_counters_t counted;
static struct known_mr *known;

void rxe_dmabuf_counters(rxe_dmabuf_counters_t *counters)
{
    pthread_mutex_lock(&mutex);
    *counters = counted;
    pthread_mutex_unlock(&mutex);
}

/* Reserves bytes before the kernel's registration. Returns 0 or an errno. */
static int take_room(size_t length)
{
    const char *text  = getenv("RXE_DMABUF_ROOM");
    unsigned long all = (text == NULL) ? -1ul : strtoul(text, NULL, 0);
    int error         = 0;

    pthread_mutex_lock(&mutex);
    if ((length > all) || (counted.live_bytes > all - length)) {
        error = ENOMEM;
    } else {
        counted.live_bytes += length;
    }
    pthread_mutex_unlock(&mutex);
    return error;
}

static void give_room_back(size_t length)
{
    pthread_mutex_lock(&mutex);
    counted.live_bytes -= length;
    pthread_mutex_unlock(&mutex);
}

static void remember(struct known_mr *mr)
{
    pthread_mutex_lock(&mutex);
    ++counted.registrations;
    ++counted.live;
    mr->next = known;
    known    = mr;
    pthread_mutex_unlock(&mutex);
}

/* Returns whether the region is one of ours. */
static int forget(const struct ibv_mr *mr)
{
    struct known_mr **at = &known;
    int found            = 0;

    pthread_mutex_lock(&mutex);
    while ((*at != NULL) && (&(*at)->super.ibv_mr != mr)) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at   = (*at)->next;
        found = 1;
        --counted.live;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

/* Moves the region to another protection domain. Returns 0 or an errno. */
static int move_in_kernel(struct ibv_mr *mr, const struct ibv_pd *to)
{
    struct ib_uverbs_rereg_mr_resp response;
    struct {
        struct ib_uverbs_cmd_hdr header;
        struct ib_uverbs_rereg_mr command;
    } request;

    memset(&request, 0, sizeof(request));
    request.header.command    = IB_USER_VERBS_CMD_REREG_MR;
    request.header.in_words   = sizeof(request) / 4;
    request.header.out_words  = sizeof(response) / 4;
    request.command.response  = (uintptr_t)&response;
    request.command.mr_handle = mr->handle;
    request.command.flags     = IBV_REREG_MR_CHANGE_PD;
    request.command.pd_handle = to->handle;
    return (write(mr->context->cmd_fd, &request, sizeof(request)) < 0) ? errno
                                                                       : 0;
}

/* In a protection domain without queue pairs a region is as good as invalid:
 * the NIC refuses an access by lkey with a local protection error, and one by
 * rkey with a remote access error. Closing the device frees the domain. */
int rxe_dmabuf_revoke(void)
{
    struct known_mr *mr;
    struct ibv_pd *nowhere;
    int count = 0;

    pthread_mutex_lock(&mutex);
    for (mr = known; (mr != NULL) && (count >= 0); mr = mr->next) {
        nowhere = ibv_alloc_pd(mr->super.ibv_mr.context);
        if ((nowhere == NULL) ||
            (move_in_kernel(&mr->super.ibv_mr, nowhere) != 0)) {
            count = -1;
        } else {
            ++count;
        }
    }
    pthread_mutex_unlock(&mutex);
    return count;
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset,
                                 size_t length, uint64_t iova, int fd,
                                 int access)
{
    const char *device = ibv_get_device_name(pd->context->device);
    struct known_mr *made;
    struct ibv_mr *mr;
    int error;

    if (strncmp(device, "rxe", 3) != 0) {
        errno = EOPNOTSUPP; /* the lab has no other NICs */
        return NULL;
    }

    error = injected_error(device, fd);
    if (error != 0) {
        errno = error;
        return NULL;
    }

    made = calloc(1, sizeof(*made));
    mr   = &made->super.ibv_mr;
    if ((made == NULL) || (take_room(length) != 0)) {
        free(made);
        errno = ENOMEM;
        return NULL;
    }

    error = reg_in_kernel(pd, offset, length, iova, fd, access, mr);
    if (error != 0) {
        give_room_back(length);
        free(made);
        errno = error;
        return NULL;
    }

    made->super.mr_type = MR_TYPE_DMABUF;
    made->super.access  = access;
    mr->context         = pd->context;
    mr->pd              = pd;
    mr->addr            = (void *)(uintptr_t)offset; /* as libibverbs sets it */
    mr->length          = length;
    remember(made);
    return mr;
}

/* Counts the deregistration; rdma-core's own function does the rest. */
int ibv_dereg_mr(struct ibv_mr *mr)
{
    int (*next)(struct ibv_mr *) =
        (int (*)(struct ibv_mr *))dlsym(RTLD_NEXT, "ibv_dereg_mr");
    const size_t length = mr->length;
    const int is_ours   = forget(mr);
    const int error     = next(mr);

    if (is_ours) {
        give_room_back(length);
    }
    return error;
}
