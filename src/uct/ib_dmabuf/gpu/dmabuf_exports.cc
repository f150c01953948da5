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
// So the thread that forks notes the files before it, and a child closes only
// what is still the same file.
struct dmabuf_exports::slot {
    std::atomic<int> fd{-1};
    std::atomic<int> noted{-1}; // the descriptor at the latest fork, or -1
    std::atomic<dev_t> device{0};
    std::atomic<ino_t> inode{0};

    bool is_file(const struct stat &file) const
    {
        return file.st_dev == device && file.st_ino == inode;
    }
};

dmabuf_exports::slot dmabuf_exports::slots_[256];

// Returns nullptr if more descriptors are open than there are slots.
dmabuf_exports::slot *dmabuf_exports::remember(int fd) noexcept
{
    at_fork<nullptr, close_in_child, note_files>();
    for (slot &each : slots_) {
        int none = -1;
        if (each.fd.compare_exchange_strong(none, fd)) {
            return &each;
        }
    }
    return nullptr;
}

void dmabuf_exports::note_files() noexcept
{
    for (slot &each : slots_) {
        const int fd = each.fd;
        struct stat file;
        each.noted = -1;
        if (fd >= 0 && fstat(fd, &file) == 0) {
            each.device = file.st_dev;
            each.inode  = file.st_ino;
            // Otherwise another file may have the number already.
            each.noted = each.fd == fd ? fd : -1;
        }
    }
}

void dmabuf_exports::close_in_child() noexcept
{
    for (slot &each : slots_) {
        const int fd = each.noted;
        struct stat file;
        if (fd >= 0 && fstat(fd, &file) == 0 && each.is_file(file)) {
            ::close(fd);
        }
        each.fd = -1;
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

// The slot is free before the number is. In a child, the descriptor is closed
// already, and no longer in the slot.
void dmabuf_exports::drop(mapping_type how) noexcept
{
    dmabuf &one = of(how);
    if (one.fd >= 0 &&
        (one.record == nullptr || one.record->fd.exchange(-1) == one.fd)) {
        ::close(one.fd);
    }
    one.fd = -1;
}

} // namespace ucx_ib_dmabuf
