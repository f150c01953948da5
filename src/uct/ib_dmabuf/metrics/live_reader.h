// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_METRICS_LIVE_READER_H_
#define UCX_IB_DMABUF_METRICS_LIVE_READER_H_

#include <memory>
#include <string>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

struct live_page;

// For tools: what another process of this user's shows (live_page.h).
class live_reader {
public:
    // Null: there is no such process, it has no page, or one of another
    // version, or it may not be looked into (errno). ENODATA: it shows none.
    static std::unique_ptr<live_reader> open(pid_t pid);
    ~live_reader();
    live_reader(const live_reader &)            = delete;
    live_reader &operator=(const live_reader &) = delete;

    // What is now: a line of JSON, in printable ASCII, of which nothing else is
    // sure. Empty if the process does not answer within that time, as it is
    // stopped or gone, or shows no such line.
    std::string ask(unsigned milliseconds);

private:
    explicit live_reader(live_page *page) : page_(page) {}

    live_page *const page_;
};

} // namespace ucx_ib_dmabuf

#endif
