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

void log_message(log_level level, const char *format, ...) noexcept
    __attribute__((format(printf, 2, 3)));
void log_error(const char *format, ...) noexcept
    __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) noexcept
    __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) noexcept
    __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) noexcept
    __attribute__((format(printf, 1, 2)));
void log_trace(const char *format, ...) noexcept
    __attribute__((format(printf, 1, 2)));

const char *ucs_status_string(ucs_status_t status) noexcept;

} // namespace ucx_ib_dmabuf
