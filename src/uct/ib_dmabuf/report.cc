// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <set>
#include <ucs/debug/log_def.h>

namespace ucx_ib_dmabuf {
namespace {

bool is_new(const std::string &cause)
{
    // Never destroyed: UCX may still log while the process exits.
    static auto *mutex = new std::mutex;
    static auto *seen  = new std::set<std::string>;

    std::lock_guard<std::mutex> guard(*mutex);
    return seen->insert(cause).second;
}

} // namespace

void warn_once(const std::string &cause, const std::string &message)
{
    if (is_new(cause)) {
        ucs_warn("ib_dmabuf: %s", message.c_str());
    } else {
        ucs_debug("ib_dmabuf: %s", message.c_str());
    }
}

std::string format(const char *pattern, ...)
{
    char text[512];
    va_list args;

    va_start(args, pattern);
    vsnprintf(text, sizeof(text), pattern, args);
    va_end(args);
    return text;
}

} // namespace ucx_ib_dmabuf
