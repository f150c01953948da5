// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace ucx_ib_dmabuf {

// A line for the log, cut off after its fixed size: a report that memory ran
// out must not need memory.
class text {
public:
    text(const char *plain = "") noexcept;

    const char *c_str() const { return bytes_; }

private:
    friend text format(const char *pattern, ...) noexcept;

    char bytes_[1024];
};

text format(const char *pattern, ...) noexcept
    __attribute__((format(printf, 1, 2)));

// For messages: the consequence if memory cannot be registered.
constexpr char staged_otherwise[] =
    "Messages in memory that is not registered are staged through host memory "
    "where UCX can";

// Warns when a cause first occurs in this process, and logs a debug message
// after that. `cause` names the call and its error, not the buffer.
// Thread-safe.
void warn_once(const text &cause, const text &message) noexcept;
// The same in a child that was forked while another thread of its parent
// started the plug-in.
void warn_forked() noexcept;
// The same if memory cannot be registered: names the failure, says that
// messages are staged, and adds a remedy. Temporary failures are no warnings.
void report_refusal(const text &cause, const text &what, const char *remedy,
                    bool passes = false) noexcept;
// In this thread they are no warnings: memory that it registers may be released
// meanwhile, and operations report what lasts.
extern constinit thread_local bool refusals_pass;
// A program that prints warnings itself gets each one instead; `remedy` is
// nullptr if the message contains it.
using warnings_reader = void(const char *message, const char *remedy);
void tell_warnings_to(warnings_reader *reader) noexcept;

} // namespace ucx_ib_dmabuf
