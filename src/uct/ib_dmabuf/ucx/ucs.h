// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include <cstddef>

namespace ucx_ib_dmabuf {

class library;

// UCS: the log and the memory types of one UCX instance.
struct ucs_functions {
    void (*log_dispatch)(const char *file, unsigned line, const char *function,
                         int level, const int *component, const char *format,
                         ...);
    const int *log_component; // starts with the level
    const char *(*status_string)(ucs_status_t status);
    ucs_status_t (*memtype_cache_lookup)(const void *address, size_t size,
                                         void *info);
};

// Returns nullptr, or the name of a missing symbol.
const char *look_up_ucs(const library &ucx, ucs_functions *out);

// The first UCS found, which the whole process uses; its memory types follow
// the first UCM's events. Nullptr before one is found. Thread-safe.
const ucs_functions *first_ucs() noexcept;
void set_first_ucs(const ucs_functions &found) noexcept; // unless one is set

// Returns false only if this UCX's memory type cache surely has no device
// memory in the range. Costs about 30 ns.
bool may_be_allocated(uintptr_t address, size_t length) noexcept;

} // namespace ucx_ib_dmabuf
