// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../host/settings.h"
#include <cstddef>

namespace ucx_ib_dmabuf {

// What the UCX_IB_DMABUF_* variables say; plain data that UCX's configuration
// parser fills.
struct settings {
    int enable;
    size_t chunk_size;
    size_t max_size;
    size_t max_regions;
    on_off_auto check_identity;
    on_off_auto prove;
    char *stats;  // a file's name (metrics/file.h), or empty
    char *module; // a file's path, or empty; read by the loader
};

// The parser is to know the variables.
void set_settings(config_parser &parser) noexcept;
// Reads them, where it does. A wrong one is logged by name, and makes
// this fail.
ucs_status_t read_settings(config_parser &parser, settings *out) noexcept;

} // namespace ucx_ib_dmabuf
