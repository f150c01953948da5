// SPDX-License-Identifier: BSD-3-Clause
#include "limbo.h"

namespace ucx_ib_dmabuf {

// How many share a fence.
constexpr unsigned batch_size = steps::size(128, 1);

limbo::~limbo()
{
    release(&waiting_);
    release(&fresh_);
}

void limbo::add(entry *e)
{
    fresh_.entries.push(e);
    if (++fresh_.size >= batch_size) {
        turn();
    }
}

void limbo::add(bunch *b)
{
    b->set_next(fresh_.bunches);
    fresh_.bunches = b;
    if (++fresh_.size >= batch_size) {
        turn();
    }
}

void limbo::forget()
{
    fresh_        = {};
    waiting_      = {};
    reader_count_ = 0;
}

// Frees the batch that waits, if its readers have left. Then the fresh one can
// begin to wait.
void limbo::turn()
{
    if (readers_left()) {
        release(&waiting_);
        waiting_ = fresh_;
        fresh_   = {};
        note_readers();
        if (reader_count_ == 0) {
            release(&waiting_);
        }
    }
}

// After the fence a thread outside its section cannot find what had left the
// index before; one that is inside, or cannot be noted, has to be waited for.
void limbo::note_readers()
{
    reader_count_ = 0;
    if (threads::alone()) {
        return;
    }
    if (!LEFT_OUT(limbo_fence)) {
        fence::heavy();
    }
    for (auto *who = threads::all(); who != nullptr; who = who->next) {
        uint32_t section = who->section.load(fence::load_order);
        while (section % 2 != 0 && reader_count_ == readers_.size()) {
            section = who->section.load(fence::load_order);
        }
        if (section % 2 != 0 && !LEFT_OUT(limbo_readers)) {
            readers_[reader_count_++] = {who, section};
        }
    }
}

bool limbo::readers_left()
{
    while (reader_count_ > 0) {
        const reader &last = readers_[reader_count_ - 1];
        if (last.who->section.load(fence::load_order) == last.section) {
            return false;
        }
        --reader_count_;
    }
    return true;
}

void limbo::release(batch *what)
{
    while (entry *e = what->entries.pop()) {
        // What adds up to nothing may be made of several threads' counts; the
        // next region here is again its maker's alone.
        if (e->has(entry::shared) && !LEFT_OUT(cleared_counts)) {
            threads::clear(e->id, 1);
        }
        pool_.give(e);
    }
    while (bunch *b = what->bunches) {
        what->bunches = b->next();
        bunch::destroy(b);
    }
    what->size = 0;
}

} // namespace ucx_ib_dmabuf
