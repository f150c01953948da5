// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <span>

#include "ucm/hook.h"

namespace ucx_ib_dmabuf {

/** Which streams a null stream stands for. */
enum class Streams { LEGACY = 1, PER_THREAD = 2 };

/** One function that is hooked, under each of its addresses. */
struct HookedFunction {
    const char *symbol; /**< as dlsym() knows it */
    const char *entry;  /**< as cuGetProcAddress knows it; may be null */
    Streams streams;    /**< which variant to ask cuGetProcAddress for */
    const HookKind &(*kind)();
};

/** The driver's functions, the newest version of each first. */
std::span<const HookedFunction> driver_functions();

/** The runtime's. */
std::span<const HookedFunction> runtime_functions();

} // namespace ucx_ib_dmabuf
