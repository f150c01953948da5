// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ucx_ib_dmabuf::ucm {

// Executable memory near the code that is patched, so that a jump of 5 bytes
// reaches it and moved code reaches what it refers to. Never released: threads
// may be in it until the process ends. For one thread at a time.
class code_arena {
public:
    // Where so many bytes may be written, until the next call; null if there is
    // no such memory near it.
    uint8_t *reserve(const void *near, size_t size);
    // What was written there stays.
    void commit(size_t size) { used_ += (size + 15) & ~size_t(15); }

private:
    std::span<uint8_t> memory_;
    size_t used_ = 0;
};

} // namespace ucx_ib_dmabuf::ucm
