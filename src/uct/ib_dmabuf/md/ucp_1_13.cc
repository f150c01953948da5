// SPDX-License-Identifier: BSD-3-Clause
//
// UCP of UCX 1.13 asks for the whole allocation that a CUDA buffer is in. The
// cache does that by itself, and does better: pools larger than
// UCX_IB_DMABUF_CHUNK_SIZE in pieces, and host copies, where there must be
// some, of the message only. So another default is written into UCP's table,
// which leaves the user's word in the environment or in ucx.conf what it is.
#include "decorate.h"
#include <atomic>
#include <cstring>

extern "C" {
#include <ucs/config/parser.h>
#include <ucs/datastruct/list.h>
}

namespace ucx_ib_dmabuf {

void register_what_is_used() noexcept
{
    ucs_config_global_list_entry_t *entry;

    ucs_list_for_each(entry, &ucs_config_global_list, list)
    {
        if (strcmp(entry->name, "UCP context") != 0) {
            continue;
        }
        for (ucs_config_field_t *field = entry->table; field->name != nullptr;
             ++field) {
            if (strcmp(field->name, "MEMTYPE_REG_WHOLE_ALLOC_TYPES") == 0) {
                // Other threads may be reading it: either is a valid text.
                std::atomic_ref(field->dfl_value)
                    .store("rocm", std::memory_order_relaxed);
            }
        }
    }
}

} // namespace ucx_ib_dmabuf
