// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <loader/enable.h>
#include <string_view>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

// Takes no lock, which a fork, or a fork's handler, could find taken. Once the
// table is full, no cause is new any more.
bool is_new(const char *cause)
{
    static std::array<std::atomic<size_t>, 256> seen;
    // Not 0. The causes are few: a collision is unlikely.
    const size_t mine = std::hash<std::string_view>()(cause) | 1;

    for (std::atomic<size_t> &place : seen) {
        size_t found = 0;
        if (place.compare_exchange_strong(found, mine)) {
            return true;
        }
        if (found == mine) {
            return false;
        }
    }
    return false;
}

std::atomic<warnings_reader *> current_reader;

} // namespace

text::text(const char *plain) noexcept
{
    snprintf(bytes_, sizeof(bytes_), "%s", plain);
}

text format(const char *pattern, ...) noexcept
{
    text result;
    va_list args;

    va_start(args, pattern);
    vsnprintf(result.bytes_, sizeof(result.bytes_), pattern, args);
    va_end(args);
    return result;
}

void warn_once(const text &cause, const text &message) noexcept
{
    if (const auto reader = current_reader.load()) {
        reader(message.c_str(), nullptr);
    } else if (is_new(cause.c_str())) {
        log_warn("ib_dmabuf: %s", message.c_str());
    } else {
        log_debug("ib_dmabuf: %s", message.c_str());
    }
}

void warn_forked() noexcept
{
    warn_once("forked",
              "this process was forked while another thread of its parent "
              "started the plug-in, and is without it. " WITHOUT_PLUGIN);
}

constinit thread_local bool refusals_pass = false;

void report_refusal(const text &cause, const text &what, const char *remedy,
                    bool passes) noexcept
{
    const auto reader = current_reader.load();
    const text message =
        format("%s. %s: %s", what.c_str(), staged_otherwise, remedy);

    if (passes || refusals_pass) {
        log_debug("ib_dmabuf: %s", message.c_str());
    } else if (reader != nullptr) {
        reader(what.c_str(), remedy);
    } else {
        warn_once(cause, message);
    }
}

void tell_warnings_to(warnings_reader *reader) noexcept
{
    current_reader = reader;
}

} // namespace ucx_ib_dmabuf
