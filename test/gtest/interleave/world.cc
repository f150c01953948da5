// SPDX-License-Identifier: BSD-3-Clause
#include "world.h"
#include <uct/ib_dmabuf/cache/reclaim/steps.h>

namespace interleave {

using fakes::call;
using ucx_ib_dmabuf::steps::thread_key;

// A call that takes its time.
static void meanwhile(const char *what, location at = location::current())
{
    the_machine.step(what, at);
}

// Where nothing is said of it, nothing is left to a thread of the cache's.
static ucx_ib_dmabuf::cache_settings
not_deferred(ucx_ib_dmabuf::cache_settings settings)
{
    if (settings.deferred_size ==
        ucx_ib_dmabuf::cache_settings().deferred_size) {
        settings.deferred_size = SIZE_MAX;
    }
    return settings;
}

world::world(ucx_ib_dmabuf::cache_settings settings)
    : limited_(settings.max_regions != SIZE_MAX)
{
    thread_key::refused = 0;
    fakes::complained   = [](const char *what) { the_machine.fail(what); };
    gpu_.each_call      = [this](call what, uintptr_t address, size_t length) {
        if (what != call::is_current) {
            meanwhile(what == call::describe ? "describe" : "export");
        }
        if (what == call::export_range &&
            gpu_.judge(address, length) != UCS_OK) {
            excused_[the_machine.self()] = releasing_ > 0;
        }
    };
    cache_ =
        std::make_unique<ucx_ib_dmabuf::cache>(gpu_, not_deferred(settings));
    for (fakes::nic &nic : nics_) {
        nic.each_call = [](call what, uintptr_t, size_t) {
            meanwhile(what == call::reg ? "reg" : "dereg");
        };
        cache_->attach(nic);
    }
}

// Deregisters with the NICs, which are there until then.
world::~world()
{
    cache_.reset();
}

void world::refuse_record()
{
    thread_key::refused |= 1u << the_machine.self();
}

// Any of those identities.
bool world::is_registered(const std::set<uint64_t> &identities) const
{
    bool found = false;
    for (const fakes::nic &nic : nics_) {
        nic.each([&](const fakes::registration &each) {
            for (const fakes::piece &part : each.pieces) {
                found |= identities.contains(part.id);
            }
        });
    }
    return found;
}

void world::finish()
{
    expect(!is_registered(gone_), "released, unused, and still registered");
    cache_->invalidate(0, SIZE_MAX);
    for (const fakes::nic &nic : nics_) {
        expect(nic.live() == 0,
               "out of the index, unused, and still registered");
    }
    ucx_ib_dmabuf::cache_counters counters;
    cache_->read_counters(&counters);
    expect(counters.regions == 0, "a region is left in the budget");
}

void world::release(uintptr_t base)
{
    const size_t size   = gpu_.size_at(base);
    const uint64_t gone = gpu_.id_at(base);
    gpu_.free(base);
    ++releasing_;
    excused_.fill(true);
    cache_->invalidate(base, size);
    --releasing_;
    gone_.insert(gone);
}

void world::flush()
{
    const std::set<uint64_t> gone = gone_;
    cache_->flush();
    expect(!is_registered(gone), "still registered when that is over");
}

void world::replace(uintptr_t base)
{
    const size_t size = gpu_.size_at(base);
    replaced_.insert(gpu_.id_at(base));
    gpu_.free(base);
    gpu_.alloc(base, size);
}

void world::lose(unsigned nic)
{
    std::set<uint64_t> lost;
    nics_[nic].each(
        [&](const fakes::registration &each) { lost.insert(each.mapping); });
    cache_->drop(nic);
    lost_[nic].merge(lost);
}

// nullptr if there is no memory, or no room.
const region *world::take(uintptr_t address, size_t length, unsigned nic)
{
    std::set<uint64_t> gone = gone_;
    gone.insert(replaced_.begin(), replaced_.end());
    const std::set<uint64_t> lost = lost_[nic];
    const region *got             = nullptr;
    bool &excused                 = excused_[the_machine.self()];
    excused                       = releasing_ > 0;
    ucs_status_t status           = cache_->get(nic, address, length, &got);
    expect(
        status == UCS_OK || status == UCS_ERR_NO_ELEM ||
            (status == UCS_ERR_EXCEEDS_LIMIT && limited_) ||
            (status == UCS_ERR_INVALID_PARAM &&
             (excused || gpu_.judge(address, length) == UCS_ERR_INVALID_PARAM)),
        "refused for no reason");
    if (status != UCS_OK) {
        return nullptr;
    }
    auto *what = static_cast<fakes::registration *>(got->handle);
    expect(what->live, "given out, and not registered");
    expect(what->address <= address &&
               address + length <= what->address + what->length &&
               what->with == &nics_[nic],
           "what was given out is of another address, or NIC");
    expect(!lost.contains(what->mapping), "given out after the NIC lost it");
    for (const fakes::piece &each : what->pieces) {
        const bool wanted =
            address < each.base + each.size && each.base < address + length;
        expect(!wanted || !gone.contains(each.id),
               "given out after its release");
    }
    ++what->users;
    meanwhile("use");
    return got;
}

void world::give(const region *used)
{
    if (used != nullptr) {
        auto *what = static_cast<fakes::registration *>(used->handle);
        expect(what->live, "deregistered while in use");
        --what->users;
        cache_->put(used);
    }
}

} // namespace interleave
