// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

namespace ucx_ib_dmabuf::ucm {

// A function that begins with a jump to a hook, ours or UCX's: a uprobe or
// another tool may write over it.
struct watched_function {
    const char *symbol;
    const void *code;
};

// Watches a function if it begins so. By one thread at a time.
void watch(const char *symbol, const void *code) noexcept;
// Thread-safe, as the next one.
std::span<const watched_function> watched_functions() noexcept;
bool is_changed(const watched_function &function) noexcept;

} // namespace ucx_ib_dmabuf::ucm
