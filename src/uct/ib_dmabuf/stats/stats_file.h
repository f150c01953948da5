// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "counters.h"
#include <climits>
#include <cstdarg>
#include <cstdio>

namespace ucx_ib_dmabuf {

// The file that UCX_IB_DMABUF_STATS names, and its text. Nothing here allocates
// memory, as the process may be ending.

// Writes text to memory of a fixed size.
class text_writer {
public:
    explicit text_writer(std::span<char> out) : out_(out) {}

    void add(const char *pattern, ...) noexcept
        __attribute__((format(printf, 2, 3)))
    {
        const std::span<char> rest = out_.subspan(length_);
        va_list args;

        va_start(args, pattern);
        const int wanted = vsnprintf(rest.data(), rest.size(), pattern, args);
        va_end(args);
        // Truncated output could end in half a number.
        if ((wanted < 0) || (static_cast<size_t>(wanted) >= rest.size())) {
            whole_ = false;
            return;
        }
        length_ += static_cast<size_t>(wanted);
    }
    // In quotes, as UTF-8: only printable ASCII is copied.
    void add_quoted(const char *before, std::string_view value) noexcept
    {
        add("%s\"", before);
        for (const char each : value) {
            const bool is_escaped = (each == '\\') || (each == '"');
            add("%s%c", is_escaped ? "\\" : "",
                ((each < ' ') || (each > '~')) ? '?' : each);
        }
        add("\"");
    }
    // The text, which a null byte follows; empty if there was too little room.
    std::string_view result() const
    {
        return whole_ ? std::string_view(out_.data(), length_)
                      : std::string_view();
    }

private:
    const std::span<char> out_;
    size_t length_ = 0;
    bool whole_    = true;
};

// These render counters in the caller's memory.

// A line of printable ASCII: an object with "pid" and each metric by its name.
// A metric with labels is an object of its numbers other than 0, by "ucp:
// no_room". "hooks_missing" is there if a hook is missing; "pairs" has those
// that have counted.
constexpr size_t text_max = 2 << 20; // suffices, whatever the names
std::string_view render_json(const counters &all, int pid,
                             std::span<char> out) noexcept;

// Prometheus' text format, version 0.0.4. Each sample has the labels "pid" and
// "program" (its first 63 bytes), so that the files of several processes can
// lie in one folder of a node exporter.
std::string_view render_prometheus(const counters &all, int pid,
                                   std::string_view program,
                                   std::span<char> out) noexcept;

using path_name = std::array<char, PATH_MAX>;

// "%p" is the process id, "%h" the host name, "%%" a "%". A relative name is
// relative to `folder`. Returns nullptr, or the error in the pattern.
const char *expand_pattern(const char *pattern, path_name *path,
                           const char *folder = nullptr) noexcept;

// Whether write_metrics() can write there: creates a file for a moment, unless
// that file exists. Returns 0 or the errno.
int check_writable(const char *path) noexcept;

// Writes the process's counters. If the name ends in ".prom", replaces the file
// atomically by Prometheus' text; else appends a line of JSON. Returns 0 or the
// errno.
int write_metrics(const char *path) noexcept;

} // namespace ucx_ib_dmabuf
