// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "library.h"
#include "types.h"
#include <cstddef>
#include <cstdint>

// UCP's software atomics. Unless the NIC supports all of add, and, or, xor,
// swap and cswap, as only mlx5 NICs do, UCP sends atomic operations as
// messages. The receiver's CPU performs them in the memory itself
// (ucp/rma/amo_sw.c, the same in all versions), even in GPU memory.
namespace ucx_ib_dmabuf {

// The values of uct_atomic_op_t.
enum class atomic_operation : uint8_t {
    add,
    bit_and,
    bit_or,
    bit_xor,
    swap,
    cswap
};

struct atomic_request {
    uintptr_t address; // in this process
    size_t length;     // 4 or 8 bytes
    atomic_operation operation;
    uint64_t operand; // of cswap: the expected value
    uint64_t swapped; // of cswap only: the new value
};

// Returns false if the CPU is to perform the operation; else sets `before`.
// Called without our locks by any thread that progresses a UCP worker.
using do_atomic = bool (*)(const atomic_request &request,
                           uint64_t *before) noexcept;

// If the library is a libucp, its workers created from now on call `by` first,
// the same in every call. Returns nullptr, or why its handler cannot be
// replaced: this libucp then keeps UCX's behaviour. Calls the loader.
const char *divert_atomics(const library &ucp, do_atomic by);

} // namespace ucx_ib_dmabuf
