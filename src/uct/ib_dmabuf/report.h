// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_REPORT_H_
#define UCX_IB_DMABUF_REPORT_H_

#include <string>

namespace ucx_ib_dmabuf {

// Logs a warning of UCX the first time that a cause comes up in this process,
// and a debug message after that. `cause` names it: the call and its error, not
// the buffer. Thread-safe.
void warn_once(const std::string &cause, const std::string &message);

// printf into a string.
std::string format(const char *pattern, ...)
    __attribute__((format(printf, 1, 2)));

} // namespace ucx_ib_dmabuf

#endif
