// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include <cstddef>

namespace ucx_ib_dmabuf {

class library;

// UCS: what one copy of UCX has of log and of memory types.
struct ucs_functions {
    void (*log_dispatch)(const char *file, unsigned line, const char *function,
                         int level, const int *component, const char *format,
                         ...);
    const int *log_component; // begins with the level
    const char *(*status_string)(ucs_status_t status);
    ucs_status_t (*memtype_cache_lookup)(const void *address, size_t size,
                                         void *info);
};

// Null, or the name of a symbol that is missing.
const char *look_up_ucs(const library &ucx, ucs_functions *out);

// The first one that was found, which all of the process uses: its memory types
// go with the events of the first UCM. Null before that. Thread-safe.
const ucs_functions *first_ucs() noexcept;
void set_first_ucs(const ucs_functions &found) noexcept; // unless there is one

// False only if that UCX has surely seen no allocation of device memory there,
// in the events of its UCM. Some 30 ns.
bool may_be_allocated(uintptr_t address, size_t length) noexcept;

} // namespace ucx_ib_dmabuf
