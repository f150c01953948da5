// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <csignal>
#include <exception>

// Deregistering a large region would noticeably delay the thread that releases
// memory, so a thread of the cache does it at once.
namespace ucx_ib_dmabuf {

void rcache::deregister_soon(entry_chain *taken)
{
    size_t bytes = 0;
    for (const entry *e = taken->first; e != nullptr; e = e->next) {
        bytes += e->length;
    }
    if (bytes < settings_.deferred_size || !defer(taken)) {
        deregister(taken);
    }
}

// Starts a thread that handles no signal. Returns false if it cannot.
static bool start(std::thread *thread, const std::function<void()> &run)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = true;
    try {
        *thread = std::thread(run);
    } catch (const std::exception &) {
        started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
}

// Returns false, and all waiting in `taken`, if no thread can be started.
bool rcache::defer(entry_chain *taken)
{
    guard locked(lock_);
    while (entry *e = taken->pop()) {
        deferred_.waiting.push(e);
    }
    const bool first  = !deferred_.running;
    deferred_.running = true;
    locked.unlock();
    deferred_changed_.notify_all();
    if (!first || start(&deferred_.thread, [this] { run_deferred(); })) {
        return true;
    }
    locked.lock();
    deferred_.running = false;
    std::swap(*taken, deferred_.waiting);
    return false;
}

void rcache::run_deferred()
{
    guard locked(lock_);
    for (;;) {
        deferred_changed_.wait(locked, [this] {
            return deferred_.stop || !deferred_.waiting.empty();
        });
        if (deferred_.waiting.empty()) {
            return;
        }
        entry_chain now   = deferred_.waiting;
        deferred_.waiting = {};
        locked.unlock();
        deregister(&now);
        locked.lock();
    }
}

void rcache::stop_deferred()
{
    {
        guard locked(lock_);
        if (!deferred_.running) {
            return;
        }
        deferred_.stop = true;
    }
    deferred_changed_.notify_all();
    deferred_.thread.join();
}

bool rcache::flush()
{
    guard locked(lock_);
    bool waited = wait_for_leaving(locked);
    // Or it was over just before this call.
    return waited || deferred_.running;
}

} // namespace ucx_ib_dmabuf
