// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "uct/ib_dmabuf/host/ucm.h"
#include <cstddef>
#include <cstdint>
#include <optional>

// Telling the copies of UCX in this process of memory that comes and goes.
// Their handlers are called, with `this_thread.announcing` set. Thread-safe.
namespace ucx_ib_dmabuf::ucm {

// To all copies. `kept`: UCP may have registered some of it.
void dispatch_free(uint64_t address, size_t size,
                   ucs_memory_type_t type = UCS_MEMORY_TYPE_CUDA,
                   bool kept              = true);
// Without a type they shall ask the driver.
void dispatch_allocation(uint64_t address, size_t size,
                         std::optional<ucs_memory_type_t> type = {});

// What the first copy's own hooks announce, to the others: theirs may be
// missing, or find the functions patched. A copy that hears of it twice loses
// nothing.
void pass_on(ucm_event_type_t type, const ucm_event_t &event);

} // namespace ucx_ib_dmabuf::ucm
