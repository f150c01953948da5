// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <dlfcn.h>
#include <lab/rxe_dmabuf.h>

// Counters that only the lab's NIC has.
namespace nic {

// Returns zeros if librxe_dmabuf.so is not loaded.
inline rxe_dmabuf_counters_t counters()
{
    static auto *const read = reinterpret_cast<decltype(rxe_dmabuf_counters) *>(
        dlsym(RTLD_DEFAULT, "rxe_dmabuf_counters"));
    rxe_dmabuf_counters_t result = {};

    if (read != nullptr) {
        read(&result);
    }
    return result;
}

} // namespace nic
