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

struct ucp_am_handler_t;

// Returns a libucp's own handler of these messages. Returns nullptr and sets
// `why` if the handler is not as expected; if the library is no libucp, `why`
// is nullptr, too. Calls the loader.
ucp_am_handler_t *find_atomic_handler(const library &ucp, const char **why);

// Workers created from now on call `by` first, the same in every call. Returns
// nullptr on success or if already done, else the reason. Calls neither UCX nor
// the loader. Only one thread at a time may call it.
const char *divert_atomics(ucp_am_handler_t *handler, do_atomic by);

} // namespace ucx_ib_dmabuf
