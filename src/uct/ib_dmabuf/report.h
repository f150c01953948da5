// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace ucx_ib_dmabuf {

// A line for the log. Has room for that much and cuts off the rest: what
// reports that there is no memory must not need any.
class text {
public:
    text(const char *plain = "") noexcept;

    const char *c_str() const { return bytes_; }
    // printf behind what is there.
    void append(const char *pattern, ...) noexcept
        __attribute__((format(printf, 2, 3)));

private:
    friend text format(const char *pattern, ...) noexcept;

    char bytes_[1024];
};

text format(const char *pattern, ...) noexcept
    __attribute__((format(printf, 1, 2)));

// What follows where memory cannot be registered, for messages.
constexpr char staged_otherwise[] =
    "Messages in memory that is not registered are staged through host memory "
    "where UCX can";

// Logs a warning of UCX the first time that a cause comes up in this process,
// and a debug message after that. `cause` names it: the call and its error, not
// the buffer. Thread-safe.
void warn_once(const text &cause, const text &message) noexcept;
// The same in a child whose parent forked while another of its threads started
// the plug-in.
void warn_forked() noexcept;
// The same of memory that cannot be registered: what failed, that messages in
// it are staged, and what the user can do. What passes by itself is no warning.
void report_refusal(const text &cause, const text &what, const char *remedy,
                    bool passes = false) noexcept;
// A program that shows them itself gets each warning instead; `remedy` is null
// where the message has it.
using warnings_reader = void(const char *message, const char *remedy);
void tell_warnings_to(warnings_reader *reader) noexcept;
// The same, of what is as it should be: a line of level info, then nothing. The
// message is what it is told by. To be called where that level is on.
void inform_once(const text &message) noexcept;

} // namespace ucx_ib_dmabuf
