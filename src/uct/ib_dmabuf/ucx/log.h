// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"

namespace ucx_ib_dmabuf {

// The log of the first UCX instance found. Before one is found, warnings and
// errors go to stderr. Thread-safe; a level that is off costs a comparison.

enum class log_level : int {
    error = 1,
    warn  = 2,
    info  = 4,
    debug = 5,
    trace = 6
};

bool log_is_on(log_level level) noexcept;

struct logger {
    log_level level;

    void operator()(const char *format, ...) const noexcept
        __attribute__((format(printf, 2, 3)));
};
inline constexpr logger log_error{log_level::error}, log_warn{log_level::warn},
    log_info{log_level::info}, log_debug{log_level::debug},
    log_trace{log_level::trace};

const char *ucs_status_string(ucs_status_t status) noexcept;

} // namespace ucx_ib_dmabuf
