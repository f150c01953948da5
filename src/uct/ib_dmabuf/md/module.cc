// SPDX-License-Identifier: BSD-3-Clause
#include "decorate.h"
#include "plugin.h"
#include <ucs/debug/log_def.h>

// Called by UCX's module loader, or by ours, once the plug-in is loaded.
extern "C" __attribute__((visibility("default"))) ucs_status_t
ucs_module_global_init() noexcept
{
    static bool done;

    if (!done && ucx_ib_dmabuf::plugin::enable()) {
        ucx_ib_dmabuf::decorate_uct_ib();
        ucs_debug("ib_dmabuf: plug-in loaded");
    }
    done = true;
    return UCS_OK;
}
