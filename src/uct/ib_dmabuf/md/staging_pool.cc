// SPDX-License-Identifier: BSD-3-Clause
#include "staging_pool.h"
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <ucs/debug/log_def.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

// The idle buffers of all pools, the one used last first, and the process that
// they belong to. The child of a fork has its parent's, the mutex perhaps
// locked and threads missing, and leaves them alone.
constinit std::mutex mutex;
staging_buffer *idle;
std::atomic<size_t> idle_count;
std::atomic<pid_t> process;
// Threads that deregister some of them without the lock.
std::atomic<unsigned> dropping;

std::unique_ptr<staging_buffer> unlink(staging_buffer **link)
{
    --idle_count;
    return std::unique_ptr<staging_buffer>(std::exchange(*link, (*link)->next));
}

// Deregisters what is idle, of one pool or of all, and waits for others that
// do: none of it is left then.
void drop(const staging_pool *pool)
{
    staging_buffer *taken = nullptr;

    {
        std::lock_guard<std::mutex> guard(mutex);
        ++dropping;
        for (staging_buffer **link = &idle; *link != nullptr;) {
            if ((pool != nullptr) && ((*link)->pool != pool)) {
                link = &(*link)->next;
                continue;
            }
            staging_buffer *one = unlink(link).release();
            one->next           = std::exchange(taken, one);
        }
    }
    while (taken != nullptr) {
        delete std::exchange(taken, taken->next);
    }
    --dropping;
    dropping.notify_all();
    while (const unsigned others = dropping) {
        dropping.wait(others);
    }
}

} // namespace

staging_pool::~staging_pool()
{
    if (process == getpid()) {
        drop(this);
    }
}

// One that is registered for this range already, or else the smallest one that
// is large enough, and not much larger: registering costs by the page. Null if
// there is none.
std::unique_ptr<staging_buffer> staging_pool::take(uintptr_t address,
                                                   size_t length)
{
    std::lock_guard<std::mutex> guard(mutex);
    staging_buffer **best = nullptr;

    if (process != getpid()) {
        return nullptr;
    }
    for (staging_buffer **link = &idle; *link != nullptr;
         link                  = &(*link)->next) {
        const staging_buffer &one = **link;
        if (one.pool != this) {
            continue;
        }
        if (one.covers(address, length)) {
            return unlink(link);
        }
        if (one.has_room(address, length) && (one.capacity() / 4 <= length) &&
            ((best == nullptr) || (one.capacity() < (*best)->capacity()))) {
            best = link;
        }
    }
    return (best != nullptr) ? unlink(best) : nullptr;
}

std::unique_ptr<staging_buffer> staging_pool::start(uintptr_t address,
                                                    size_t length)
{
    auto buffer = take(address, length);

    if (!buffer) {
        buffer = staging_buffer::create(length);
    }
    if (!buffer) {
        return nullptr;
    }
    ucs_status_t status = buffer->start(gpu_, pd_, address, length, access_);
    if (status == UCS_ERR_NO_RESOURCE) {
        // What is idle may have what this one lacks: locked memory, keys.
        drop_all_idle();
        status = buffer->start(gpu_, pd_, address, length, access_);
    }
    if (status == UCS_ERR_NO_RESOURCE) {
        ucs_error("ib_dmabuf: ibv_reg_mr_iova(%zu bytes of host memory) "
                  "failed: %s. Raise 'ulimit -l'",
                  buffer->capacity(), strerror(errno));
    }
    return (status == UCS_OK) ? std::move(buffer) : nullptr;
}

bool staging_pool::any_idle()
{
    return (idle_count != 0) || (dropping != 0);
}

void staging_pool::drop_all_idle()
{
    if (any_idle() && (process == getpid())) {
        drop(nullptr);
    }
}

// Keeps the buffer and takes it from the caller; or gives back the one that was
// idle longest, for it has to go first.
std::unique_ptr<staging_buffer>
staging_pool::keep(std::unique_ptr<staging_buffer> &buffer)
{
    std::lock_guard<std::mutex> guard(mutex);
    staging_buffer **oldest = nullptr;
    size_t count            = 0;
    size_t bytes            = buffer->capacity();

    if (process.exchange(getpid()) != getpid()) {
        idle       = nullptr;
        idle_count = 0;
    }
    for (staging_buffer **link = &idle; *link != nullptr;
         link                  = &(*link)->next) {
        if ((*link)->pool == this) {
            oldest = link;
            bytes += (*link)->capacity();
            ++count;
        }
    }
    if ((count == max_idle) || (bytes > max_idle_bytes)) {
        return unlink(oldest);
    }
    buffer->pool = this;
    buffer->next = idle;
    idle         = buffer.release();
    ++idle_count;
    return nullptr;
}

void staging_pool::finish(std::unique_ptr<staging_buffer> buffer)
{
    if (!buffer->is_ours()) {
        return;
    }
    buffer->finish(gpu_);
    if (buffer->capacity() > max_idle_bytes) {
        return;
    }
    while (buffer) {
        // Deregisters without the lock.
        const std::unique_ptr<staging_buffer> oldest = keep(buffer);
    }
}

size_t staging_pool::idle_bytes() const
{
    std::lock_guard<std::mutex> guard(mutex);
    size_t bytes = 0;

    for (const staging_buffer *one = idle; one != nullptr; one = one->next) {
        bytes += (one->pool == this) ? one->capacity() : 0;
    }
    return bytes;
}

} // namespace ucx_ib_dmabuf
