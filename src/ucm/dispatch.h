// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <uct/ib_dmabuf/ucx/ucm.h>

// Announces allocations and releases to each UCX in this process. Calls their
// handlers with `this_thread.announcing` set. Thread-safe.
namespace ucx_ib_dmabuf::ucm {

// `kept`: UCP may have registered some of it.
void dispatch_free(uint64_t address, size_t size,
                   ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA,
                   bool kept              = true);
// Without a type UCX queries the driver.
void dispatch_allocation(uint64_t address, size_t size,
                         std::optional<ucs_memory_type_t> type = {});

// Announces to the others an event of the first UCX's own hooks: their hooks
// may be missing, or find the functions patched. A duplicate does no harm.
void pass_on(ucm_event_type_t type, const ucm_event_t &event);

} // namespace ucx_ib_dmabuf::ucm
