// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf_exports.h"
#include <atomic>
#include <pthread.h>
#include <sys/stat.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

// A descriptor, and the file behind it, for children. A fork copies the
// descriptors before the memory, and takes no lock: other threads may close and
// open files in between. So a record outlasts its descriptor, and a child
// closes only what is still the same file.
struct dmabuf_exports::slot {
    std::atomic<bool> in_use{false};
    std::atomic<int> fd{-1};
    std::atomic<dev_t> device{0};
    std::atomic<ino_t> inode{0};
};

constexpr size_t slot_count = 256;
dmabuf_exports::slot dmabuf_exports::slots_[slot_count];

// Returns nullptr if more descriptors are open than there are slots.
dmabuf_exports::slot *dmabuf_exports::remember(int fd) noexcept
{
    [[maybe_unused]] static const int once =
        pthread_atfork(nullptr, nullptr, close_in_child);
    static std::atomic<size_t> next{0};
    struct stat file;
    if (fstat(fd, &file) != 0) {
        return nullptr;
    }
    for (size_t i = 0; i < slot_count; ++i) {
        slot &each = slots_[next++ % slot_count];
        if (!each.in_use.exchange(true)) {
            each.fd     = -1;
            each.device = file.st_dev;
            each.inode  = file.st_ino;
            each.fd     = fd;
            return &each;
        }
    }
    return nullptr;
}

void dmabuf_exports::close_in_child() noexcept
{
    for (slot &each : slots_) {
        const int fd = each.fd;
        struct stat file;
        if (fd >= 0 && fstat(fd, &file) == 0 && file.st_dev == each.device &&
            file.st_ino == each.inode) {
            ::close(fd);
        }
        each.fd     = -1;
        each.in_use = false;
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

// In a child of this thread the descriptor is closed already.
void dmabuf_exports::drop(mapping_type how) noexcept
{
    dmabuf &one = of(how);
    if (one.fd >= 0 && (one.record == nullptr || one.record->fd == one.fd)) {
        ::close(one.fd);
    }
    if (one.record != nullptr) {
        one.record->in_use = false;
    }
    one.fd     = -1;
    one.record = nullptr;
}

} // namespace ucx_ib_dmabuf
