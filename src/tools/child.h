// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace ucx_ib_dmabuf::info {

// For the answer of a child, as some file systems are slow.
constexpr unsigned child_patience = 20; // seconds

// Calls `what` in a child process, which may crash or hang, and returns the
// text that it writes to the descriptor. The child has no other input and
// output. Ends it and its own children. Returns nullopt if it exceeds its time.
std::optional<std::string> ask_child(const std::function<void(int to)> &what);

} // namespace ucx_ib_dmabuf::info
