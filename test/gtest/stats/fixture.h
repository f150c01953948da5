// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdlib>
#include <uct/ib_dmabuf/stats/counters.h>
#include <utility>

// Frees what the counters allocated, and sets them to zero.
inline void reset(ucx_ib_dmabuf::counters *all)
{
    free(all->hooks_missing);
    while (all->newest != nullptr) {
        delete std::exchange(all->newest, all->newest->next);
    }
    *all = {};
}
