// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ucx_ib_dmabuf::ucm {

// Executable memory near the patched code, so that a 5-byte jump reaches it and
// moved code reaches its operands. Never freed: threads may run it until the
// process ends. Not thread-safe.
class code_arena {
public:
    // Returns `size` bytes near `near`; nullptr if no such memory is free.
    uint8_t *allocate(const void *near, size_t size);

private:
    std::span<uint8_t> memory_;
    size_t used_ = 0;
};

} // namespace ucx_ib_dmabuf::ucm
