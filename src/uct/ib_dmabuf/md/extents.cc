// SPDX-License-Identifier: BSD-3-Clause
//
// The ranges of the entries in UCP's cache of memory handles.
#include "process_state.h"

namespace ucx_ib_dmabuf {

ucs_status_t get_gpu_memh(const memh_request &request) noexcept
{
    process_state *const shared = process_state::existing();

    if ((shared == nullptr) ||
        (request.mem_type != shared->gpu().memory_type()) ||
        shared->registrations().checks_each_use()) {
        return request.pass_on();
    }
    const address_range asked = make_range(request.address, request.length);
    const address_range range = shared->registrations().extent(asked);
    if ((range != asked) &&
        (request.pass_on(range.lo, range.size()) == UCS_OK)) {
        return UCS_OK;
    }
    return request.pass_on(); // a domain may not take all
}

} // namespace ucx_ib_dmabuf
