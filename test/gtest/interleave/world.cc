// SPDX-License-Identifier: BSD-3-Clause
#include "world.h"
#include <algorithm>
#include <uct/ib_dmabuf/cache/reclaim/steps.h>

namespace interleave {

// A call that takes its time.
static void meanwhile(const char *what, location at = location::current())
{
    the_machine.step(what, at);
}

using ucx_ib_dmabuf::steps::thread_key;

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
    : cache_(new ucx_ib_dmabuf::cache(*this, not_deferred(settings))),
      limited_(settings.max_regions != SIZE_MAX)
{
    thread_key::refused = 0;
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

bool world::registration::has_any(const std::set<uint64_t> &identities) const
{
    return std::any_of(of.begin(), of.end(), [&](const allocation &part) {
        return identities.contains(part.identity);
    });
}

void world::finish()
{
    for (const registration &each : registrations_) {
        expect(each.users == 0, "a scenario that does not give back");
        expect(!each.live || !each.has_any(gone_),
               "released, unused, and still registered");
    }
    cache_->invalidate(0, SIZE_MAX);
    for (const registration &each : registrations_) {
        expect(!each.live, "out of the index, unused, and still registered");
    }
    ucx_ib_dmabuf::cache_counters counters;
    cache_->read_counters(&counters);
    expect(counters.regions == 0, "a region is left in the budget");
}

void world::alloc(uintptr_t base, size_t size)
{
    memory_.push_back({base, size, ++last_identity_, false});
}

void world::map(uintptr_t base, size_t size)
{
    memory_.push_back({base, size, ++last_identity_, true});
}

void world::release(uintptr_t base)
{
    allocation old = *find(base);
    std::erase_if(memory_, [&](const allocation &each) {
        return each.identity == old.identity;
    });
    ++releasing_;
    excused_.fill(true);
    cache_->invalidate(base, old.size);
    --releasing_;
    gone_.insert(old.identity);
}

void world::flush()
{
    std::set<uint64_t> gone = gone_;
    cache_->flush();
    for (const registration &each : registrations_) {
        expect(!each.live || !each.has_any(gone),
               "still registered when that is over");
    }
}

void world::replace(uintptr_t base)
{
    allocation *at = find(base);
    replaced_.insert(at->identity);
    at->identity = ++last_identity_;
}

bool world::leaves_memory(uintptr_t address, size_t length)
{
    return find(address) != nullptr && find(address, length).empty();
}

// nullptr if there is no memory, or no room.
const region *world::take(uintptr_t address, size_t length, unsigned nic)
{
    std::set<uint64_t> gone = gone_;
    gone.insert(replaced_.begin(), replaced_.end());
    const region *got   = nullptr;
    bool &excused       = excused_[the_machine.self()];
    excused             = releasing_ > 0;
    ucs_status_t status = cache_->get(nic, address, length, &got);
    expect(status == UCS_OK || status == UCS_ERR_NO_ELEM ||
               (status == UCS_ERR_EXCEEDS_LIMIT && limited_) ||
               (status == UCS_ERR_INVALID_PARAM &&
                (excused || leaves_memory(address, length))),
           "refused for no reason");
    if (status != UCS_OK) {
        return nullptr;
    }
    auto *what = static_cast<registration *>(got->handle);
    expect(what->live, "given out, and not registered");
    expect(what->address <= address &&
               address + length <= what->address + what->length &&
               what->nic == nic,
           "what was given out is of another address, or NIC");
    for (const allocation &each : what->of) {
        expect(!each.overlaps(address, length) || !gone.contains(each.identity),
               "given out after its release");
    }
    ++what->users;
    meanwhile("use");
    return got;
}

void world::give(const region *used)
{
    if (used != nullptr) {
        auto *what = static_cast<registration *>(used->handle);
        expect(what->live, "deregistered while in use");
        --what->users;
        cache_->put(used);
    }
}

world::allocation *world::find(uintptr_t address)
{
    auto at = std::find_if(memory_.begin(), memory_.end(),
                           [address](const allocation &each) {
                               return each.overlaps(address, 1);
                           });
    return at == memory_.end() ? nullptr : &*at;
}

// All of the range; empty if it is not one allocation, nor segments that touch.
std::vector<world::allocation> world::find(uintptr_t address, size_t length)
{
    std::vector<allocation> result;
    uintptr_t at = address;
    while (const allocation *next = find(at)) {
        if (!result.empty() && !(next->joins && result.back().joins)) {
            break;
        }
        result.push_back(*next);
        at = next->base + next->size;
        if (at >= address + length) {
            return result;
        }
    }
    return {};
}

ucs_status_t world::describe(uintptr_t address, ucx_ib_dmabuf::extent *out)
{
    meanwhile("describe");
    const allocation *here = find(address);
    if (here == nullptr) {
        return UCS_ERR_NO_ELEM;
    }
    *out          = {};
    out->base     = here->base;
    out->size     = here->size;
    out->identity = here->identity;
    out->device   = 0;
    out->joins    = here->joins;
    return UCS_OK;
}

bool world::is_current(uintptr_t address, uint64_t identity)
{
    const allocation *here = find(address);
    return here != nullptr && here->identity == identity;
}

// A descriptor that nobody has to close says what is exported.
ucs_status_t world::export_range(uintptr_t address, size_t length, int *fd)
{
    meanwhile("export");
    exports_.push_back(find(address, length));
    if (exports_.back().empty()) {
        excused_[the_machine.self()] = releasing_ > 0;
        return UCS_ERR_INVALID_PARAM;
    }
    *fd = -static_cast<int>(exports_.size());
    return UCS_OK;
}

ucs_status_t world::card::reg(int fd, uintptr_t address, size_t length,
                              void **handle)
{
    meanwhile("reg");
    auto &all = owner->registrations_;
    all.push_back({address, length, owner->exports_[-fd - 1], number});
    *handle = &all.back();
    return UCS_OK;
}

void world::card::dereg(void *handle)
{
    meanwhile("dereg");
    auto *what = static_cast<registration *>(handle);
    expect(what->live, "deregistered twice");
    expect(what->users == 0, "deregistered while in use");
    what->live = false;
}

} // namespace interleave
