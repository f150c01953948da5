// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "library.h"
#include "types.h"
#include <cstddef>
#include <cstdint>

// The two functions of UCP that the plug-in diverts. Each call that diverts one
// returns nullptr, or why that cannot be: this libucp then does what it does
// without the plug-in. Other libraries are left alone. `by` is the same in
// every call. They call the loader.
namespace ucx_ib_dmabuf {

// UCP's software atomics. Unless the NIC supports all of add, and, or, xor,
// swap and cswap, as only mlx5 NICs do, UCP sends atomic operations as
// messages. The receiver's CPU performs them in the memory itself
// (ucp/rma/amo_sw.c, the same in all versions), even in GPU memory.

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

// Workers created from now on call `by` first.
const char *divert_atomics(const library &ucp, do_atomic by);

// A miss of UCP's cache of memory handles. UCP makes an entry for the range
// that it asks for, and finds the entry for all that lies inside.

// ucp_memh_get_slow(), the same in all versions.
using ucp_memh_get_function =
    ucs_status_t(void *context, void *address, size_t length,
                 ucs_memory_type_t mem_type, uint64_t reg_md_map,
                 unsigned uct_flags, const char *alloc_name, void **memh_p);

struct memh_request {
    ucp_memh_get_function *ucp;
    void *context;
    uintptr_t address;
    size_t length;
    ucs_memory_type_t mem_type;
    uint64_t md_map; // bits of the context's memory domains
    unsigned flags;
    const char *name;
    void **memh;

    // Has UCP make an entry for a range that contains the request.
    ucs_status_t pass_on(uintptr_t from, size_t bytes) const
    {
        return ucp(context, reinterpret_cast<void *>(from), bytes, mem_type,
                   md_map, flags, name, memh);
    }
    ucs_status_t pass_on() const { return pass_on(address, length); }
};

// Returns the result of memh_request::pass_on(), which may be called again
// after an error. Called by any thread that uses UCP, without its locks of
// memory.
using get_memh = ucs_status_t (*)(const memh_request &request) noexcept;

// Each miss for other than host memory calls `by` from now on.
const char *divert_memh_get(const library &ucp, get_memh by);

} // namespace ucx_ib_dmabuf
