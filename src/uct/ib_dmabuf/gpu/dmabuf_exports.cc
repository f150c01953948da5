// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf_exports.h"
#include <pthread.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

std::mutex dmabuf_exports::lock_;
dmabuf_exports *dmabuf_exports::first_ = nullptr;

dmabuf_exports::dmabuf_exports(exporter &memory, uintptr_t address,
                               size_t length, size_t before)
    : dmabuf_source(before), memory_(memory), address_(address - before),
      length_(length + before)
{
    [[maybe_unused]] static const int once =
        pthread_atfork([] { lock_.lock(); }, [] { lock_.unlock(); }, in_child);
    const std::lock_guard<std::mutex> guard(lock_);
    next_  = first_;
    first_ = this;
}

dmabuf_exports::~dmabuf_exports()
{
    drop(mapping_type::standard);
    drop(mapping_type::pcie);
    const std::lock_guard<std::mutex> guard(lock_);
    dmabuf_exports **link = &first_;
    while (*link != nullptr && *link != this) {
        link = &(*link)->next_;
    }
    if (*link == this) { // false if it was the parent's
        *link = next_;
    }
}

ucs_status_t dmabuf_exports::get(mapping_type how, int *fd)
{
    dmabuf &one = of(how);

    if (!one.exported) {
        const uint64_t begin = nanoseconds_now();
        one.status =
            (how == mapping_type::standard)
                ? memory_.export_range(address_, length_, &one.fd)
                : memory_.export_range_pcie(address_, length_, &one.fd);
        one.exported = one.status == UCS_OK;
        if (one.exported) {
            process_counters.add_time("export_time", nanoseconds_now() - begin);
            ++made_;
        }
    }
    *fd = one.fd;
    return one.status;
}

// A fork waits until the descriptor is closed and marked so. Otherwise the
// child would keep it, or close another file with its number.
void dmabuf_exports::drop(mapping_type how) noexcept
{
    const std::lock_guard<std::mutex> guard(lock_);
    of(how).close();
}

void dmabuf_exports::dmabuf::close() noexcept
{
    if (exported && (fd >= 0)) {
        ::close(fd);
    }
    exported = false;
}

void dmabuf_exports::in_child() noexcept
{
    for (dmabuf_exports *each = first_; each != nullptr; each = each->next_) {
        for (dmabuf &one : each->all_) {
            one.close();
        }
    }
    first_ = nullptr;
    lock_.unlock();
}

} // namespace ucx_ib_dmabuf
