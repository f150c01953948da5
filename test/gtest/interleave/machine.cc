// SPDX-License-Identifier: BSD-3-Clause
#include "machine.h"
#include <algorithm>
#include <cstring>

namespace interleave {

constexpr size_t stack_size = 256 * 1024;
// An execution with more steps than this does not end.
constexpr size_t max_steps = 20000;

machine the_machine;

machine::machine()
{
    for (thread &t : threads_) {
        t.stack = std::make_unique<char[]>(stack_size);
    }
}

void machine::enter()
{
    machine &m = the_machine;
    (*m.me().body)();
    m.me().is = state::ended;
    m.yield();
}

void machine::run(const std::vector<std::function<void()>> &bodies,
                  schedule *order)
{
    order_     = order;
    count_     = bodies.size();
    exploring_ = false;
    ++round_;
    events_.clear();
    reclaimed_.clear();
    for (void *each : released_) {
        operator delete(each);
    }
    released_.clear();
    for (unsigned i = 0; i < count_; ++i) {
        thread &t = threads_[i];
        t.body    = &bodies[i];
        t.is      = state::ready;
        t.buffer.clear();
        t.looks_at.clear();
        getcontext(&t.context);
        t.context.uc_stack.ss_sp   = t.stack.get();
        t.context.uc_stack.ss_size = stack_size;
        t.context.uc_link          = nullptr;
        makecontext(&t.context, enter, 0);
    }
    self_ = 0;
    swapcontext(&outside_, &threads_[0].context);
    self_      = max_threads;
    exploring_ = false;
}

bool machine::can_run(const thread &t) const
{
    return t.is == state::ready ||
           (t.is == state::locking && !*static_cast<const bool *>(t.awaited));
}

bool machine::any(state is) const
{
    return std::any_of(threads_.begin(), threads_.begin() + count_,
                       [is](const thread &t) { return t.is == is; });
}

void machine::move(unsigned to)
{
    thread &from = me();
    self_        = to;
    swapcontext(&from.context, &threads_[to].context);
}

void machine::fail(const std::string &what)
{
    if (failed()) {
        return;
    }
    violation_ = what;
    if (self_ < count_) {
        setcontext(&outside_); // for good
    }
}

std::string machine::trace() const
{
    std::string text;
    for (const event &each : events_) {
        const char *file = strrchr(each.at.file_name(), '/');
        text += "  thread " + std::to_string(each.thread) + ": " + each.what +
                " " + (file == nullptr ? each.at.file_name() : file + 1) + ":" +
                std::to_string(each.at.line()) + "\n";
    }
    return text;
}

void machine::yield()
{
    if (!exploring_ && !any(state::ready)) {
        exploring_ = true;
        for (unsigned i = 0; i < count_; ++i) {
            if (threads_[i].is == state::at_start) {
                threads_[i].is = state::ready;
            }
        }
    }
    ways_.clear();
    for (unsigned i = 0; i < count_; ++i) {
        for (size_t k = 0; can_run(threads_[i]) && k <= me().buffer.size();
             ++k) {
            ways_.emplace_back(i, k);
        }
    }
    if (ways_.empty()) {
        for (state is : {state::locking, state::waiting}) {
            if (any(is)) {
                fail("deadlock");
            }
        }
        for (thread &t : threads_) {
            drain(t);
        }
        setcontext(&outside_);
    }
    auto [next, drained] = ways_[exploring_ ? order_->choose(ways_.size()) : 0];
    drain(me(), drained);
    if (next != self_) {
        move(next);
    }
}

void machine::start()
{
    me().is = state::at_start;
    yield();
}

void machine::step(const char *what, location at)
{
    if (!scheduled()) {
        return;
    }
    if (events_.size() > max_steps) {
        fail("does not end");
    }
    if (order_->may_depart()) {
        // To another thread, after so many of the own stores have drained; or
        // another one's store drains.
        ways_.clear();
        for (unsigned i = 0; i < count_; ++i) {
            if (i != self_ && can_run(threads_[i])) {
                for (size_t k = 0; k <= me().buffer.size(); ++k) {
                    ways_.emplace_back(i, k);
                }
            }
        }
        size_t switches = ways_.size();
        for (unsigned i = 0; i < count_; ++i) {
            if (i != self_ && !threads_[i].buffer.empty()) {
                ways_.emplace_back(i, 1);
            }
        }
        unsigned way = order_->depart(1 + ways_.size());
        if (way > switches) {
            drain(threads_[ways_[way - 1].first], 1);
        } else if (way > 0) {
            drain(me(), ways_[way - 1].second);
            move(ways_[way - 1].first);
        }
    }
    events_.push_back({self_, what, at});
}

void machine::drain(thread &t, size_t count)
{
    for (size_t i = 0; i < count; ++i) {
        memcpy(t.buffer[i].where, &t.buffer[i].bits, t.buffer[i].size);
    }
    t.buffer.erase(t.buffer.begin(), t.buffer.begin() + count);
}

uint64_t machine::load(const void *where, unsigned size, location at)
{
    uint64_t bits = 0;
    if (scheduled()) {
        auto &mine = me().buffer;
        auto found = std::find_if(
            mine.rbegin(), mine.rend(),
            [where](const pending &each) { return each.where == where; });
        if (found != mine.rend()) {
            return found->bits;
        }
        step("load", at);
    }
    memcpy(&bits, where, size);
    return bits;
}

void machine::store(void *where, unsigned size, uint64_t bits)
{
    if (scheduled()) {
        me().buffer.push_back({where, bits, size, false});
    } else {
        memcpy(where, &bits, size);
    }
}

void machine::exclusive(const char *what, location at)
{
    if (scheduled()) {
        step(what, at);
        drain(me());
    }
}

void machine::compiler_fence(location at)
{
    if (!scheduled() || me().buffer.empty() || me().buffer.back().ordered) {
        return;
    }
    step("compiler fence", at);
    for (pending &each : me().buffer) {
        each.ordered = true;
    }
}

void machine::full_fence(location at)
{
    if (scheduled() && !me().buffer.empty()) {
        exclusive("fence", at);
    }
}

void machine::membarrier(location at)
{
    if (!scheduled()) {
        return;
    }
    exclusive("membarrier", at);
    for (thread &t : threads_) {
        drain(t, std::count_if(t.buffer.begin(), t.buffer.end(),
                               [](const pending &p) { return p.ordered; }));
    }
}

void machine::lock(bool *locked, location at)
{
    exclusive("lock", at);
    while (*locked) {
        if (self_ >= count_) {
            return fail("deadlock outside threads");
        }
        me().is      = state::locking;
        me().awaited = locked;
        yield();
        me().is = state::ready;
    }
    *locked = true;
}

void machine::unlock(bool *locked, location at)
{
    if (scheduled() && !me().buffer.empty()) {
        exclusive("unlock", at);
    }
    *locked = false;
}

void machine::wait(const void *what)
{
    if (self_ >= count_) {
        return fail("waits outside threads");
    }
    me().is      = state::waiting;
    me().awaited = what;
    yield();
}

void machine::notify(const void *what)
{
    for (unsigned i = 0; i < count_; ++i) {
        if (threads_[i].is == state::waiting && threads_[i].awaited == what) {
            threads_[i].is = state::ready;
        }
    }
}

void machine::found(uintptr_t what)
{
    what &= ~uintptr_t{1}; // the tag of a bunch
    if (what == 0 || self_ >= count_) {
        return;
    }
    if (std::find(reclaimed_.begin(), reclaimed_.end(), what) !=
        reclaimed_.end()) {
        fail("the index leads to what was reclaimed");
    }
    me().looks_at.push_back(what);
}

void machine::left()
{
    if (self_ < count_) {
        me().looks_at.clear();
    }
}

void machine::reclaimed(const void *what)
{
    auto value = reinterpret_cast<uintptr_t>(what);
    for (unsigned i = 0; i < count_; ++i) {
        auto &seen = threads_[i].looks_at;
        if (std::find(seen.begin(), seen.end(), value) != seen.end()) {
            fail("reclaimed while thread " + std::to_string(i) +
                 " looks at it");
        }
    }
    reclaimed_.push_back(value);
}

void machine::reused(const void *what)
{
    std::erase(reclaimed_, reinterpret_cast<uintptr_t>(what));
}

void machine::release(void *memory)
{
    reclaimed(memory);
    released_.push_back(memory);
}

} // namespace interleave
