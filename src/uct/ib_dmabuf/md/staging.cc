// SPDX-License-Identifier: BSD-3-Clause
#include "staging.h"
#include "../verbs/dmabuf_mr.h"
#include "changes.h"
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <ucs/debug/log_def.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

size_t page_size()
{
    static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

} // namespace

staging_buffer::staging_buffer(char *memory, size_t capacity)
    : memory_(memory), capacity_(capacity), process_(getpid())
{
}

bool staging_buffer::is_ours() const
{
    return process_ == getpid();
}

// Pages of its own, so that fork() finds nothing else of the process in what is
// registered. Those that are never used cost nothing.
std::unique_ptr<staging_buffer> staging_buffer::create(size_t length)
{
    const size_t page = page_size();
    // The copy begins at the GPU address's place in the page.
    const size_t capacity = (length + 2 * page - 2) / page * page;
    void *memory          = mmap(nullptr, 3 * capacity, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED) {
        ucs_error("ib_dmabuf: no %zu bytes of host memory to stage a message",
                  3 * capacity);
        return nullptr;
    }
    std::unique_ptr<staging_buffer> buffer(new (std::nothrow) staging_buffer(
        static_cast<char *>(memory), capacity));
    if (!buffer) {
        munmap(memory, 3 * capacity);
    }
    return buffer;
}

staging_buffer::~staging_buffer()
{
    invalidate();
    munmap(memory_, 3 * capacity_);
}

bool staging_buffer::has_room(uintptr_t address, size_t length) const
{
    return address % page_size() + length <= capacity_;
}

bool staging_buffer::covers(uintptr_t address, size_t length) const
{
    return (mr_ != nullptr) && (address >= window_) &&
           (address - window_ <= capacity_) &&
           (length <= capacity_ - (address - window_));
}

void staging_buffer::invalidate()
{
    if ((mr_ != nullptr) && is_ours()) {
        verbs_dereg_mr(*verbs_, mr_);
    }
    mr_ = nullptr;
}

ucs_status_t staging_buffer::start(gpu_vendor &gpu, const protection_domain &pd,
                                   uintptr_t address, size_t length, int access)
{
    const bool registered = covers(address, length);

    if (!registered) {
        invalidate();
        window_ = address - address % page_size();
    }
    memory_run found;
    const bool known =
        found.describe(gpu, make_span(address, length)) == UCS_OK;
    address_ = address;
    length_  = length;
    origin_  = known ? std::move(found) : memory_run();

    ucs_status_t status = gpu.copy_to_host(bytes(), address, length);
    if (status != UCS_OK) {
        return status;
    }
    memcpy(bytes() + capacity_, bytes(), length);
    if (registered) {
        return UCS_OK;
    }
    verbs_ = pd.verbs;
    mr_    = verbs_->reg_iova(pd.verbs_pd, memory_, capacity_, window_, access);
    return (mr_ != nullptr) ? UCS_OK : UCS_ERR_NO_RESOURCE;
}

// Between two bytes that changed there may be some that another NIC wrote: they
// are taken from the GPU, and where they are many, not touched at all.
void staging_buffer::finish(gpu_vendor &gpu)
{
    const char *now    = bytes();
    const char *before = now + capacity_;
    char *merged       = bytes() + 2 * capacity_;

    for (size_t from = 0;;) {
        const changed_run run = find_changes(now, before, from, length_);
        const size_t length   = run.end - run.begin;
        if (length == 0) {
            return;
        }
        if ((from == 0) && !origin_.is_current(gpu)) {
            ucs_debug("ib_dmabuf: GPU memory at 0x%zx was released before the "
                      "message in it was over: nothing is written there",
                      address_);
            return;
        }
        // Failures are logged as errors there; UCX has no way to fail here.
        if (gpu.copy_to_host(merged, address_ + run.begin, length) != UCS_OK) {
            return;
        }
        merge_changes(merged, now + run.begin, before + run.begin, length);
        if (gpu.copy_from_host(address_ + run.begin, merged, length) !=
            UCS_OK) {
            return;
        }
        from = run.end;
    }
}

} // namespace ucx_ib_dmabuf
