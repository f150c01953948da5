// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_HIT_H_
#define UCX_IB_DMABUF_CACHE_HIT_H_

#include "engine.h"

// The fast way in and out: no lock, no atomic read-modify-write, and nothing
// written that another thread reads or writes for its own hits. Everything else
// is behind a tail call, so that this needs no stack.
namespace ucx_ib_dmabuf {

// yes: taken. look: taken, and there is something to see to. no: nothing
// serves the range. lost: it left the index while we took it; settle() it.
// ask: cannot be taken here. Plain: only low addresses, and what has its
// granules for itself.
template <typename Fence, bool plain>
[[gnu::always_inline]] inline engine::found
engine::try_hold(thread_record *me, nic_id nic, uintptr_t address,
                 size_t length, entry **out)
{
    read_section<Fence> reading(me);
    const address_map &map = nics_[nic].map;
    uintptr_t value = plain ? map.low_value_at(address) : map.value_at(address);
    if (plain && address_map::is_bunch(value)) [[unlikely]] {
        return found::ask;
    }
    steps::found(value);
    entry *e = address_map::near(value, address);
    steps::found(reinterpret_cast<uintptr_t>(e));
    if (e == nullptr || !e->covers(address, length)) {
        return found::no;
    }
    if (!e->is_of(me)) [[unlikely]] {
        return found::ask;
    }
    me->add_use(e->id, 1);
    // Who removes it marks it, fences and then counts: either that count has
    // ours, or we see the mark.
    if (!LEFT_OUT(hit_fence)) {
        Fence::light();
    }
    unsigned marks = e->marks.load(fence::load_order);
    if (LEFT_OUT(hit_look)) {
        marks &= ~unsigned{entry::leaving};
    }
    *out = e;
    if ((marks & (entry::leaving | entry::recent | entry::checked)) ==
        entry::recent) [[likely]] {
        me->add_hit(tally_);
        return found::yes;
    }
    if (marks & entry::leaving) {
        me->add_use(e->id, -1);
        return found::lost;
    }
    me->add_hit(tally_);
    return found::look;
}

[[gnu::always_inline]] inline ucs_status_t
engine::get(nic_id nic, uintptr_t address, size_t length, const region **out)
{
    thread_record *me = threads::current;
    if (me == nullptr || nic >= max_nics || !address_map::is_low(address))
        [[unlikely]] {
        return get_again(nic, address, length, out);
    }
    entry *e;
    found result = try_hold<fence::cheap, true>(me, nic, address, length, &e);
    if (result == found::yes) [[likely]] {
        entries::check_taken(e);
        *out = e;
        return UCS_OK;
    }
    if (result == found::no) {
        return get_slow(nic, address, length, false, out);
    }
    if (result == found::ask) {
        return get_again(nic, address, length, out);
    }
    return get_marked(nic, address, length, e, result, out);
}

[[gnu::always_inline]] inline const region *
engine::find(nic_id nic, uintptr_t address, size_t length)
{
    thread_record *me = threads::current;
    if (me == nullptr || nic >= max_nics || !address_map::is_low(address))
        [[unlikely]] {
        return find_again(nic, address, length);
    }
    entry *e     = nullptr;
    found result = try_hold<fence::cheap, true>(me, nic, address, length, &e);
    if (result == found::yes) [[likely]] {
        entries::check_taken(e);
        return e;
    }
    return (result == found::ask) ? find_again(nic, address, length)
                                  : find_marked(e, result);
}

template <typename Fence>
[[gnu::always_inline]] inline void engine::put_as(thread_record *me, entry *e)
{
    if (me == nullptr || !e->is_of(me)) [[unlikely]] {
        return put_slow(e);
    }
    entries::check_given_back(e);
    me->add_use(e->id, -1);
    // From here the entry may be another region already; then a look at it is
    // superfluous, not wrong.
    if (!LEFT_OUT(put_fence)) {
        Fence::light();
    }
    if (e->marks.load(fence::load_order) & entry::leaving &&
        !LEFT_OUT(put_look)) [[unlikely]] {
        settle(e);
    }
}

[[gnu::always_inline]] inline void engine::put(entry *e)
{
    put_as<fence::cheap>(threads::current, e);
}

} // namespace ucx_ib_dmabuf

#endif
