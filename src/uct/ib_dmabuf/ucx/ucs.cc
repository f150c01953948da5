// SPDX-License-Identifier: BSD-3-Clause
#include "ucs.h"
#include "library.h"
#include "log.h"
#include <atomic>
#include <cstdarg>
#include <cstdio>

namespace ucx_ib_dmabuf {
namespace {

std::atomic<const ucs_functions *> first;
} // namespace

const char *look_up_ucs(const library &ucx, ucs_functions *out)
{
    symbols in(ucx);

    in.find("ucs_log_dispatch", &out->log_dispatch);
    in.find_variable("ucs_global_opts", &out->log_component);
    in.find("ucs_status_string", &out->status_string);
    in.find("ucs_memtype_cache_lookup", &out->memtype_cache_lookup);
    return in.missing();
}

const ucs_functions *first_ucs() noexcept
{
    return first.load(std::memory_order_acquire);
}

void set_first_ucs(const ucs_functions &found) noexcept
{
    const ucs_functions *none = nullptr;
    first.compare_exchange_strong(none, &found);
}

bool may_be_allocated(uintptr_t address, size_t length) noexcept
{
    const ucs_functions *ucs = first_ucs();
    uint64_t info[16]; // any version's ucs_memory_info_t

    return (ucs == nullptr) ||
           (ucs->memtype_cache_lookup(reinterpret_cast<void *>(address), length,
                                      info) != UCS_ERR_NO_ELEM);
}

bool log_is_on(log_level level) noexcept
{
    const ucs_functions *ucs = first_ucs();

    return level <= ((ucs == nullptr)
                         ? log_level::warn
                         : log_level{__atomic_load_n(ucs->log_component,
                                                     __ATOMIC_RELAXED)});
}

void logger::operator()(const char *format, ...) const noexcept
{
    const ucs_functions *ucs = first_ucs();
    char line[2048];
    va_list args;

    if (!log_is_on(level)) {
        return;
    }
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (ucs == nullptr) {
        fprintf(stderr, "%s\n", line);
    } else {
        // UCX logs a source position; ours is in the text.
        ucs->log_dispatch("ib_dmabuf", 0, "", static_cast<int>(level),
                          ucs->log_component, "%s", line);
    }
}

const char *ucs_status_string(ucs_status_t status) noexcept
{
    const ucs_functions *ucs = first_ucs();
    return (ucs == nullptr) ? "an error" : ucs->status_string(status);
}

} // namespace ucx_ib_dmabuf
