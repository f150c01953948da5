// SPDX-License-Identifier: BSD-3-Clause
#include "gpu_memory.h"
#include <array>
#include <new>
#include <sys/stat.h>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {

static bool is_sane(const allocation &one)
{
    return one.size != 0 && one.size <= UINTPTR_MAX - one.base;
}

void segment_run::append(const allocation &next)
{
    all.push_back({next.base, next.identity});
    range.hi = next.base + next.size;
}

ucs_status_t segment_run::describe(exporter &memory, address_range request,
                                   bool whole)
try {
    allocation next;
    ucs_status_t status =
        as_answer(whole ? memory.describe_whole(request.lo, &next)
                        : memory.describe(request.lo, &next));
    if (status != UCS_OK) {
        return status;
    }
    if (!is_sane(next) || request.empty() || next.base > request.lo ||
        next.base + next.size <= request.lo) {
        return UCS_ERR_INVALID_PARAM;
    }
    range.lo    = next.base;
    device      = next.device;
    joins       = next.joins;
    identity    = next.identity;
    reservation = next.reservation;
    in_chunks   = next.in_chunks;
    std::shared_ptr<void> together;
    if (joins && next.base + next.size < request.hi) {
        together = memory.begin(request.lo);
    }
    for (append(next); !range.covers(request); append(next)) {
        // Two allocations that touch are not one run.
        if (!joins || memory.describe(range.hi, &next) != UCS_OK ||
            !is_sane(next) || !next.joins || next.device != device ||
            next.base != range.hi) {
            return UCS_ERR_INVALID_PARAM;
        }
    }
    return UCS_OK;
} catch (const std::bad_alloc &) {
    return UCS_ERR_NO_MEMORY;
}

void segment_run::extend(exporter &memory, address_range within)
{
    allocation next;
    auto is_next = [&](uintptr_t at) {
        return memory.describe(at, &next) == UCS_OK && is_sane(next) &&
               next.joins && next.device == device &&
               next.reservation == reservation &&
               within.covers({next.base, next.base + next.size});
    };
    try {
        const auto together = memory.begin(range.lo);
        segments before;
        uintptr_t lo = range.lo;
        while (lo > within.lo && is_next(lo - 1) &&
               next.base + next.size == lo) {
            before.push_back({next.base, next.identity});
            lo = next.base;
        }
        all.insert(all.begin(), before.rbegin(), before.rend());
        range.lo = lo;
        while (range.hi < within.hi && is_next(range.hi) &&
               next.base == range.hi) {
            append(next);
        }
    } catch (const std::bad_alloc &) {
        // The run is valid as far as it was extended.
    }
}

bool segment_run::is_current(exporter &memory) const
{
    return std::all_of(all.begin(), all.end(), [&](auto &each) {
        return memory.is_current(each.base, each.identity);
    });
}

address_range window_of(address_range request, size_t chunk_size)
{
    for (size_t size = chunk_size; size != 0; size *= 2) {
        for (size_t shift : {size_t{0}, size / 2}) {
            if (request.lo < shift) {
                continue;
            }
            uintptr_t lo         = ((request.lo - shift) & ~(size - 1)) + shift;
            address_range window = make_range(lo, size);
            if (window.covers(request)) {
                return window;
            }
        }
    }
    return {0, UINTPTR_MAX};
}

address_range range_to_register(address_range memory, address_range request,
                                size_t chunk_size)
{
    return memory.size() <= chunk_size
               ? memory
               : intersection(memory, window_of(request, chunk_size));
}

namespace {

// The open dma-bufs, for children to close. A fork copies the descriptors
// before the memory, and takes no lock: other threads may close and open files
// meanwhile. So the thread that forks notes the list before it, and a child
// closes only what is still the same file.
using file_list = std::array<std::atomic<open_file>, 256>;
static_assert(file_list::value_type::is_always_lock_free);
constinit file_list listed, noted;

open_file file_of(int fd) noexcept
{
    struct stat file {};

    if (fstat(fd, &file) != 0) {
        return {fd, 0};
    }
    // Other file systems have the same inodes.
    return {fd, static_cast<uint32_t>(file.st_ino) ^
                    (static_cast<uint32_t>(file.st_dev) << 24)};
}

void note_files() noexcept
{
    std::transform(listed.begin(), listed.end(), noted.begin(),
                   [](const auto &each) { return each.load(); });
}

void close_in_child() noexcept
{
    for (auto *list : {&noted, &listed}) {
        for (auto &each : *list) {
            const open_file one = each.exchange({});
            if (one.fd >= 0 && file_of(one.fd) == one) {
                ::close(one.fd);
            }
        }
    }
}

// Returns the entry, or nullptr if the list is full.
file_list::pointer list(open_file file) noexcept
{
    at_fork<nullptr, close_in_child, note_files>();
    for (auto &each : listed) {
        open_file none;
        if (each.compare_exchange_strong(none, file)) {
            return &each;
        }
    }
    return nullptr;
}

} // namespace

ucs_status_t dmabuf_exports::get(mapping_type how, int *fd)
{
    dmabuf &one = of(how);

    if (one.file.fd < 0) {
        const uint64_t begin = nanoseconds_now();
        int made             = -1;
        one.status           = (how == mapping_type::standard)
                                   ? memory_.export_range(address_, length_, &made)
                                   : memory_.export_range_pcie(address_, length_, &made);
        if (one.status == UCS_OK) {
            one.file   = file_of(made);
            one.listed = list(one.file);
            process_counters.add_time("export_time", nanoseconds_now() - begin);
            ++made_;
        }
    }
    *fd = one.file.fd;
    return one.status;
}

// Closes the dma-buf before it frees the entry: a child that is forked in
// between compares the file. In a child of a fork by this thread,
// close_in_child() has done both.
void dmabuf_exports::drop(mapping_type how) noexcept
{
    dmabuf &one          = of(how);
    const open_file file = std::exchange(one.file, {});

    if (file.fd >= 0 && (one.listed == nullptr || *one.listed == file)) {
        ::close(file.fd);
        if (one.listed != nullptr) {
            *one.listed = open_file{};
        }
    }
}

} // namespace ucx_ib_dmabuf
