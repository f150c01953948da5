// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

namespace ucx_ib_dmabuf::ucm {

// A function that begins with a jump to a hook, ours or UCX's. A uprobe or
// another tool may overwrite the jump.
struct watched_function {
    const char *symbol;
    const void *code;
};

// Watches a function if it begins with such a jump. Not thread-safe.
void watch(const char *symbol, const void *code) noexcept;
// Thread-safe, like is_changed().
std::span<const watched_function> watched_functions() noexcept;
bool is_changed(const watched_function &function) noexcept;

} // namespace ucx_ib_dmabuf::ucm
