/*
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Part of the lab's preload library: RXE_DMABUF_SPEED is the speed that
 * soft-RoCE devices report, of four lanes: EDR (100 Gb/s), HDR (200) or NDR
 * (400). UCX's choice of a protocol depends on it. Nothing gets faster.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

/* ibv_port_attr::active_speed, and active_width of four lanes. */
static const struct {
    const char *name;
    uint8_t value;
} speeds[] = {{"EDR", 32}, {"HDR", 64}, {"NDR", 128}};

enum { WIDTH_4X = 2 };

static int (*query_port)(struct ibv_context *context, uint8_t port_num,
                         struct ibv_port_attr *attr, size_t size);

/* Returns ibv_port_attr::active_speed, or 0 for the device's own. */
static uint8_t wanted_speed(void)
{
    const char *text = getenv("RXE_DMABUF_SPEED");
    size_t i;

    for (i = 0; (text != NULL) && (i < sizeof(speeds) / sizeof(*speeds)); ++i) {
        if (strcmp(text, speeds[i].name) == 0) {
            return speeds[i].value;
        }
    }
    return 0;
}

static int query_wanted_port(struct ibv_context *context, uint8_t port_num,
                             struct ibv_port_attr *attr, size_t size)
{
    const int error = query_port(context, port_num, attr, size);

    if (error == 0) {
        attr->active_speed = wanted_speed();
        attr->active_width = WIDTH_4X;
    }
    return error;
}

/* All soft-RoCE devices have the same query_port. */
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    struct ibv_context *(*next)(struct ibv_device *) =
        (struct ibv_context * (*)(struct ibv_device *))
            dlsym(RTLD_NEXT, "ibv_open_device");
    struct ibv_context *context = next(device);
    struct verbs_context *known =
        (context == NULL) ? NULL : verbs_get_ctx(context);

    if ((known != NULL) && (wanted_speed() != 0) &&
        (strncmp(ibv_get_device_name(device), "rxe", 3) == 0) &&
        (known->query_port != query_wanted_port)) {
        query_port        = known->query_port;
        known->query_port = query_wanted_port;
    }
    return context;
}
