// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <uct/ib_dmabuf/ucx/settings.h>

namespace ucx_ib_dmabuf {

// The values of the UCX_IB_DMABUF_* variables; plain data that UCX's
// configuration parser fills.
struct settings {
    int enable;
    size_t chunk_size;
    size_t max_size;
    size_t max_regions;
    on_off_auto check_identity;
    on_off_auto prove;
    int prefetch;
    char *stats;  // a file's name (stats/stats_file.h), or empty
    char *module; // a file's path, or empty; read by the loader

    static const settings_table table;
    // Logs the name of an invalid one.
    bool are_valid() const;
};

} // namespace ucx_ib_dmabuf
