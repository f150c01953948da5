// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf_exports.h"
#include <atomic>
#include <sys/stat.h>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

// A descriptor for children to close. A fork copies the descriptors before the
// memory, and takes no lock: other threads may close and open files meanwhile.
// So the thread that forks notes the descriptors before it, and a child closes
// only what is still the same file.
struct dmabuf_exports::slot {
    static constexpr int free = -1, taken = -2; // in place of a descriptor

    std::atomic<int> fd{free};
    std::atomic<int> noted{free}; // `fd` before the latest fork
    std::atomic<dev_t> device{0};
    std::atomic<ino_t> inode{0};
};

dmabuf_exports::slot dmabuf_exports::slots_[256];

// Returns nullptr if more descriptors are open than there are slots.
dmabuf_exports::slot *dmabuf_exports::remember(int fd) noexcept
{
    struct stat file;

    at_fork<nullptr, close_in_child, note>();
    if (fstat(fd, &file) != 0) {
        return nullptr;
    }
    for (slot &each : slots_) {
        int none = slot::free;
        if (each.fd.compare_exchange_strong(none, slot::taken)) {
            each.device = file.st_dev;
            each.inode  = file.st_ino;
            each.fd     = fd;
            return &each;
        }
    }
    return nullptr;
}

void dmabuf_exports::note() noexcept
{
    for (slot &each : slots_) {
        each.noted = each.fd.load();
    }
}

void dmabuf_exports::close_in_child() noexcept
{
    for (slot &each : slots_) {
        for (const int fd : {each.noted.load(), each.fd.load()}) {
            struct stat file;
            if (fd >= 0 && fstat(fd, &file) == 0 &&
                file.st_dev == each.device && file.st_ino == each.inode) {
                ::close(fd);
            }
        }
        each.fd    = slot::free;
        each.noted = slot::free;
    }
}

ucs_status_t dmabuf_exports::get(mapping_type how, int *fd)
{
    dmabuf &one = of(how);

    if (one.fd < 0) {
        const uint64_t begin = nanoseconds_now();
        one.status =
            (how == mapping_type::standard)
                ? memory_.export_range(address_, length_, &one.fd)
                : memory_.export_range_pcie(address_, length_, &one.fd);
        if (one.status == UCS_OK) {
            one.record = remember(one.fd);
            process_counters.add_time("export_time", nanoseconds_now() - begin);
            ++made_;
        }
    }
    *fd = one.fd;
    return one.status;
}

// A child that is forked in between compares the file. In a child of a fork
// during the registration, close_in_child() has closed the descriptor.
void dmabuf_exports::drop(mapping_type how) noexcept
{
    dmabuf &one = of(how);
    if (one.fd >= 0 && (one.record == nullptr || one.record->fd == one.fd)) {
        ::close(one.fd);
        if (one.record != nullptr) {
            one.record->fd = slot::free;
        }
    }
    one.fd = -1;
}

} // namespace ucx_ib_dmabuf
