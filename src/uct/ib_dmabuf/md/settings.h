// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_SETTINGS_H_
#define UCX_IB_DMABUF_MD_SETTINGS_H_

#include <cstddef>
#include <ucs/config/types.h>
#include <ucs/type/status.h>

namespace ucx_ib_dmabuf {

// What the UCX_IB_DMABUF_* variables say; plain data that UCS's configuration
// parser fills.
struct settings {
    int enable;
    size_t chunk_size;
    size_t max_size;
    size_t max_regions;
    ucs_on_off_auto_value_t check_identity;
    char *stats;  // a file's path, or empty
    char *module; // the same; read by the loader
};

// Reads the variables. A wrong one is logged by name, and makes this fail.
ucs_status_t read_settings(settings *out) noexcept;

} // namespace ucx_ib_dmabuf

#endif
