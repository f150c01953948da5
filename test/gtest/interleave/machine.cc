// SPDX-License-Identifier: BSD-3-Clause
#include "machine.h"
#include <algorithm>
#include <cstring>
#include <utility>

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
    m.me().body();
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
    for (unsigned i = 0; i < count_; ++i) {
        begin(&threads_[i], bodies[i]);
    }
    self_             = 0;
    threads_[0].begun = true;
    swapcontext(&outside_, &threads_[0].context);
    self_      = max_threads;
    exploring_ = false;
}

void machine::begin(thread *t, const std::function<void()> &body)
{
    t->body     = body;
    t->must_end = true;
    t->is       = state::ready;
    t->section  = access::none;
    t->mutexes  = 0;
    t->buffer.clear();
    t->begun = false;
    getcontext(&t->context);
    t->context.uc_stack.ss_sp   = t->stack.get();
    t->context.uc_stack.ss_size = stack_size;
    t->context.uc_link          = nullptr;
    makecontext(&t->context, enter, 0);
}

bool machine::spawn(const std::function<void()> &body)
{
    if (self_ >= count_ || count_ == max_threads) {
        return false;
    }
    begin(&threads_[count_], body);
    threads_[count_++].must_end = false;
    return true;
}

// What it waits for is looked at as the thread sees it.
bool machine::can_run(unsigned i)
{
    const thread &t = threads_[i];
    if (t.is != state::blocked) {
        return t.is == state::ready;
    }
    unsigned self  = std::exchange(self_, i);
    bool exploring = std::exchange(exploring_, false);
    bool holds     = (*t.awaited)();
    self_          = self;
    exploring_     = exploring;
    return holds;
}

bool machine::any(state is) const
{
    return std::any_of(threads_.begin(), threads_.begin() + count_,
                       [is](const thread &t) { return t.is == is; });
}

// swapcontext() calls the kernel, for the mask of signals, at each switch.
void machine::move(unsigned to)
{
    thread &next = threads_[to];

    if (_setjmp(me().place) != 0) {
        return;
    }
    self_ = to;
    if (std::exchange(next.begun, true)) {
        _longjmp(next.place, 1);
    }
    setcontext(&next.context);
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
        bool runs = can_run(i);
        for (size_t k = 0; runs && k <= me().buffer.size(); ++k) {
            ways_.emplace_back(i, k);
        }
    }
    if (ways_.empty()) {
        // No store waits for ever.
        bool drained = false;
        for (unsigned i = 0; i < count_; ++i) {
            drained |= !threads_[i].buffer.empty();
            drain(threads_[i]);
        }
        if (drained) {
            return yield();
        }
        for (unsigned i = 0; i < count_; ++i) {
            if (threads_[i].is == state::blocked && threads_[i].must_end) {
                fail("deadlock");
            }
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
            if (i != self_ && can_run(i)) {
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
    if (self_ < count_) {
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

void machine::until(const std::function<bool()> &holds)
{
    if (self_ >= count_) {
        if (!holds()) {
            fail("deadlock outside threads");
        }
        return;
    }
    thread &mine = me();
    mine.awaited = &holds;
    mine.is      = state::blocked;
    while (!can_run(self_)) {
        yield();
    }
    mine.is = state::ready;
}

void machine::lock(bool *locked, location at)
{
    exclusive("lock", at);
    until([locked] { return !*locked; });
    *locked = true;
    if (self_ < count_) {
        ++me().mutexes;
    }
}

void machine::unlock(bool *locked, location at)
{
    if (scheduled() && !me().buffer.empty()) {
        exclusive("unlock", at);
    }
    *locked = false;
    if (self_ < count_) {
        --me().mutexes;
    }
}

void machine::enters(access section)
{
    if (self_ >= count_) {
        return;
    }
    me().section = section;
    for (unsigned i = 0; i < count_ && section != access::none; ++i) {
        access other = threads_[i].section;
        if (i != self_ && other != access::none &&
            (section == access::changes || other == access::changes)) {
            fail("a reader and a writer at the same time, or two writers");
        }
    }
}

void machine::touches(access kind)
{
    if (self_ >= count_ || me().section == access::changes ||
        (kind == access::reads &&
         (me().section == access::reads || me().mutexes > 0))) {
        return;
    }
    fail("plain data is touched where others may touch it as well");
}

} // namespace interleave
