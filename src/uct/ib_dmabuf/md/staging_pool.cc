// SPDX-License-Identifier: BSD-3-Clause
#include "staging_pool.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ucs/debug/log_def.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {

std::mutex staging_pool::mutex_;
std::atomic<pid_t> staging_pool::process_;
std::atomic<unsigned> staging_pool::dropping_;
staging_pool *staging_pool::first_;
std::atomic<size_t> staging_pool::all_idle_;

void staging_pool::wait_for_dropping(std::unique_lock<std::mutex> &locked)
{
    while (const unsigned dropping = dropping_) {
        locked.unlock();
        dropping_.wait(dropping);
        locked.lock();
    }
}

// What another thread took of it has to be deregistered before its domain ends.
staging_pool::~staging_pool()
{
    if (!listed_ || (process_ != getpid())) {
        return;
    }
    std::unique_lock<std::mutex> locked(mutex_);
    wait_for_dropping(locked);
    staging_pool **link = &first_;
    while (*link != this) {
        link = &(*link)->next_;
    }
    *link = next_;
    all_idle_ -= idle_count_;
}

std::unique_ptr<staging_buffer> staging_pool::remove(size_t index)
{
    const auto at  = idle_.begin() + static_cast<ptrdiff_t>(index);
    const auto end = idle_.begin() + static_cast<ptrdiff_t>(idle_count_);
    auto found     = std::move(*at);

    std::move(at + 1, end, at);
    --idle_count_;
    --all_idle_;
    idle_bytes_ -= found->capacity();
    return found;
}

// One that is registered for this range already, or else the smallest one that
// is large enough, and not much larger: registering costs by the page. Null if
// there is none.
std::unique_ptr<staging_buffer> staging_pool::take(uintptr_t address,
                                                   size_t length)
{
    std::lock_guard<std::mutex> guard(mutex_);
    size_t best = idle_count_;

    for (size_t i = 0; i < idle_count_; ++i) {
        const staging_buffer &one = *idle_[i];
        if (one.covers(address, length)) {
            return remove(i);
        }
        if (one.has_room(address, length) && (one.capacity() / 4 <= length) &&
            ((best == idle_count_) ||
             (one.capacity() < idle_[best]->capacity()))) {
            best = i;
        }
    }
    return (best < idle_count_) ? remove(best) : nullptr;
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

staging_pool::buffers staging_pool::remove_all()
{
    all_idle_ -= idle_count_;
    idle_count_ = 0;
    idle_bytes_ = 0;
    return std::move(idle_);
}

bool staging_pool::any_idle()
{
    return (all_idle_ != 0) || (dropping_ != 0);
}

// Deregisters without the lock; no pool ends meanwhile.
void staging_pool::drop_all_idle()
{
    if (any_idle() && (process_ != getpid())) {
        return;
    }

    std::unique_lock<std::mutex> locked(mutex_);

    ++dropping_;
    for (staging_pool *pool = first_; pool != nullptr; pool = pool->next_) {
        buffers dropped = pool->remove_all();
        locked.unlock();
        dropped = {};
        locked.lock();
    }
    --dropping_;
    dropping_.notify_all();
    wait_for_dropping(locked);
}

// Keeps the buffer and takes it from the caller; or gives back the one that was
// idle longest, for it has to go first.
std::unique_ptr<staging_buffer>
staging_pool::keep(std::unique_ptr<staging_buffer> &buffer)
{
    std::lock_guard<std::mutex> guard(mutex_);

    if ((idle_count_ == max_idle) ||
        (idle_bytes_ + buffer->capacity() > max_idle_bytes)) {
        return remove(idle_count_ - 1);
    }
    const auto end = idle_.begin() + static_cast<ptrdiff_t>(idle_count_);
    std::move_backward(idle_.begin(), end, end + 1);
    idle_bytes_ += buffer->capacity();
    ++idle_count_;
    ++all_idle_;
    if (!listed_) {
        listed_  = true;
        process_ = getpid();
        next_    = std::exchange(first_, this);
    }
    idle_[0] = std::move(buffer);
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
    std::lock_guard<std::mutex> guard(mutex_);
    return idle_bytes_;
}

} // namespace ucx_ib_dmabuf
