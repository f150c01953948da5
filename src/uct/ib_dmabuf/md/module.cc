// SPDX-License-Identifier: BSD-3-Clause
#include "../cuda/vendor.h"
#include "decorate.h"
#include "plugin.h"
#include <ucs/debug/log_def.h>

// Called by UCX's module loader, or by ours, once the plug-in is loaded; by
// ours again before UCP reads its settings, and by several threads at once.
extern "C" __attribute__((visibility("default"))) ucs_status_t
ucs_module_global_init() noexcept
{
    static const bool enabled = [] {
        if (!ucx_ib_dmabuf::plugin::enable(ucx_ib_dmabuf::find_cuda)) {
            return false;
        }
        ucx_ib_dmabuf::decorate_uct_ib();
        ucs_debug("ib_dmabuf: plug-in loaded");
        return true;
    }();

    if (enabled) {
        ucx_ib_dmabuf::register_what_is_used();
    }
    return UCS_OK;
}
