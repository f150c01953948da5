// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "library.h"
#include "types.h"
#include <cstddef>
#include <cstdint>

// Atomic operations that UCP does by itself, "in software": unless the NIC has
// all of add, and, or, xor, swap and cswap, which only mlx5's have, UCP sends
// them as messages, and the receiver's CPU does them where the memory is
// (ucp/rma/amo_sw.c, the same in all versions), whatever memory that is.
namespace ucx_ib_dmabuf {

// As uct_atomic_op_t.
enum class atomic_operation : uint8_t {
    add,
    bit_and,
    bit_or,
    bit_xor,
    swap,
    cswap
};

struct atomic_request {
    uintptr_t address; // of this process
    size_t length;     // 4 or 8 bytes
    atomic_operation operation;
    uint64_t operand; // of cswap: what has to be there
    uint64_t swapped; // of cswap only: what comes there
};

// Whether it was done, and what was there before; false: the CPU is to do it.
// Called by whatever thread progresses a worker of UCP's, with no lock of ours.
using do_atomic = bool (*)(const atomic_request &request,
                           uint64_t *before) noexcept;

struct ucp_am_handler_t;

// A libucp's handler of these messages, of its own and as it is known. Null,
// and `why`, which is null, too, where the library is no libucp. Calls the
// loader.
ucp_am_handler_t *find_atomic_handler(const library &ucp, const char **why);

// All workers that are made from now on ask `by` first, which is always the
// same. Null also if they do already, else why they will not. Memory only; of
// several threads only one may call.
const char *divert_atomics(ucp_am_handler_t *handler, do_atomic by);

} // namespace ucx_ib_dmabuf
