// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <dlfcn.h>
#include <lab/rxe_dmabuf.h>

// Functions that only the lab's NIC has.
namespace nic {

template <typename Function>
Function *entry(const char *name)
{
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}

// Returns zeros if librxe_dmabuf.so is not loaded.
inline rxe_dmabuf_counters_t counters()
{
    static auto *const read =
        entry<decltype(rxe_dmabuf_counters)>("rxe_dmabuf_counters");
    rxe_dmabuf_counters_t result = {};

    if (read != nullptr) {
        read(&result);
    }
    return result;
}

// Makes the NIC refuse access to what is registered; returns how much was.
inline int revoke()
{
    auto *const revoke =
        entry<decltype(rxe_dmabuf_revoke)>("rxe_dmabuf_revoke");
    return (revoke == nullptr) ? -1 : revoke();
}

} // namespace nic
