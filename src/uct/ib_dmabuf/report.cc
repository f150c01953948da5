// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <loader/enable.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

// FNV-1a; never 0. The causes are few and ours, so a collision would be a
// mistake of ours.
uint64_t hash(const char *cause)
{
    uint64_t result = 0xcbf29ce484222325ull;

    for (; *cause != '\0'; ++cause) {
        result =
            (result ^ static_cast<unsigned char>(*cause)) * 0x100000001b3ull;
    }
    return result | 1;
}

// A table without locks, which a fork, or a fork's handler, could find taken.
// Once it is full, no cause is new any more.
using table = std::array<std::atomic<uint64_t>, 256>;

bool is_new(const char *cause, table &seen)
{
    const uint64_t mine = hash(cause);

    for (std::atomic<uint64_t> &place : seen) {
        uint64_t found = 0;
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
    static table seen;

    if (const auto reader = current_reader.load()) {
        reader(message.c_str(), nullptr);
    } else if (is_new(cause.c_str(), seen)) {
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

// A table of its own, to leave room for warnings.
void inform_once(const text &message) noexcept
{
    static table seen;

    if (is_new(message.c_str(), seen)) {
        log_info("ib_dmabuf: %s", message.c_str());
    }
}

} // namespace ucx_ib_dmabuf
