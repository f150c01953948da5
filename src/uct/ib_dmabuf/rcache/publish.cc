// SPDX-License-Identifier: BSD-3-Clause
#include "rcache.h"
#include <new>

// Makes entries, and publishes them. Nothing is allocated or freed under the
// lock: an allocator may call the driver, and so release memory.
namespace ucx_ib_dmabuf {

// Adds an entry; all of them have one export. Returns false without memory.
bool rcache::add_entry(new_registration *work, address_range range, nic_id nic)
try {
    const segment_run &memory = work->memory;
    const size_t before       = memory_.before(range.lo, memory.in_chunks);
    entry_list made(1);
    entry *e = &made.front();
    entry_map node;
    e->address = range.lo;
    e->length  = range.size();
    e->bytes   = intersection(range, memory.range);
    e->nic     = nic;
    e->place   = made.begin();
    e->group   = work->new_entries.empty()
                     ? std::make_shared<export_group>(
                         export_group{.device = budget::slot(memory.device),
                                        .bytes  = before + range.size()})
                     : work->new_entries.front().group;
    all_segments(memory.all, e->bytes, [e](const segment &each, uintptr_t) {
        e->memory.push_back(each);
        return true;
    });
    node.emplace(e->bytes.lo, e);
    e->node = node.extract(node.begin());
    work->new_entries.splice(work->new_entries.end(), made);
    return true;
} catch (const std::bad_alloc &) {
    return false;
}

// Publishes the entries if the memory is the same as when the work began. Other
// threads no longer wait for it.
ucs_status_t rcache::finish(new_registration *work, ucs_status_t status,
                            entry **out)
{
    entry_chain gone;
    {
        guard locked(lock_);
        remove_from_list(locked, *work);
        if (*out == nullptr && work->released) {
            status = UCS_ERR_CANCELED; // the release may be the cause of errors
        } else if (*out == nullptr && status == UCS_OK) {
            *out = publish(locked, work, &gone);
            // If another thread has published a covering entry meanwhile, the
            // retry finds that in begin().
            status = *out == nullptr ? UCS_INPROGRESS : UCS_OK;
        }
        while (!work->new_entries.empty()) {
            take_for_dereg(locked, &work->new_entries.front(),
                           &work->new_entries, &gone);
        }
    }
    if (work->nics.any()) {
        changed_.notify_all();
    }
    deregister(&gone);
    return status;
}

// It is not there if it is the parent's.
void rcache::remove_from_list(guard &, const new_registration &work)
{
    new_registration **link = &in_progress_;
    while (*link != nullptr && *link != &work) {
        link = &(*link)->next;
    }
    if (*link != nullptr) {
        *link = work.next;
    }
}

// Leaves entries in the list that cannot be published. Returns the entry of the
// work's NIC, if it was published.
entry *rcache::publish(guard &locked, new_registration *work,
                       entry_chain *replaced)
{
    entry *wanted = nullptr;
    auto each     = work->new_entries.begin();
    while (each != work->new_entries.end()) {
        entry *e = &*each++; // it may leave the list
        if (insert(locked, e, &work->new_entries, replaced) &&
            e->nic == work->nic) {
            wanted = e;
        }
    }
    if (wanted != nullptr) {
        acquire(locked, wanted, work->request);
        if (work->persistent) { // other requests fail on a known failure
            failures_.forget(work->memory.identity, work->nic);
        }
    }
    return wanted;
}

// Replaces entries within it. Returns false if it would lie within another one.
bool rcache::insert(guard &locked, entry *e, entry_list *from,
                    entry_chain *replaced)
{
    entry_index &index = nics_[e->nic].index;
    if (index.find(e->bytes.lo, e->bytes.size()) != nullptr) {
        return false;
    }
    index.each(e->bytes, [&](entry *old) {
        if (e->bytes.covers(old->bytes)) {
            unlink(locked, old, cause::replaced, replaced);
        }
    });
    e->generation = generation_;
    index.insert(e);
    lru_.splice(lru_.end(), *from, e->place);
    return true;
}

} // namespace ucx_ib_dmabuf
