// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "library.h"
#include "types.h"
#include <cstddef>
#include <cstdint>

// A miss of UCP's cache of memory handles. UCP makes an entry for the range
// that it asks for, and finds the entry for all that lies inside.
namespace ucx_ib_dmabuf {

// ucp_memh_get_slow(), the same in all versions.
using ucp_memh_get_function =
    ucs_status_t(void *context, void *address, size_t length,
                 ucs_memory_type_t mem_type, uint64_t reg_md_map,
                 unsigned uct_flags, const char *alloc_name, void **memh_p);

// A call of UCP's function, with UCP's arguments.
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

// If the library is a libucp, it calls `by` in each miss from now on, the same
// in every call. Returns nullptr, or why that cannot be: this libucp then makes
// an entry for each buffer. Calls the loader.
const char *divert_memh_get(const library &ucp, get_memh by);

} // namespace ucx_ib_dmabuf
