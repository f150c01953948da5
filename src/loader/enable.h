/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* For messages: the consequence if the plug-in serves no UCX. */
#define WITHOUT_PLUGIN                                                         \
    "Messages in GPU memory are staged through host memory where UCX was "     \
    "built with CUDA, and crash where it was not"

/* As in UCX's parser: 1 on, also if not set, 0 off, -1 a wrong value. */
static inline int read_enable(void)
{
    static const char *const words[] = {"0", "off", "n", "no",
                                        "1", "on",  "y", "yes"};
    const char *value                = getenv("UCX_IB_DMABUF_ENABLE");

    for (int i = 0; value && (i < 8); ++i) {
        if ((i % 4 < 2 ? strcmp : strcasecmp)(value, words[i]) == 0) {
            return i / 4;
        }
    }
    return value ? -1 : 1;
}
