// SPDX-License-Identifier: BSD-3-Clause
#include "model.h"
#include <algorithm>
#include <common/fds.h>

// The model's checks.

using ucx_ib_dmabuf::region;

// Returns whether the cache may report a lack of room: even the exact range
// does not fit beside the regions in use.
bool model::no_room(unsigned nic, uintptr_t address, size_t length) const
{
    if (fault_armed_ || gpu_.judge(address, length) != UCS_OK) {
        return true;
    }
    size_t bytes =
        ((address + length + page - 1) & ~(page - 1)) - (address & ~(page - 1));
    size_t all = bytes, here = bytes;
    std::set<const region *> used;
    std::set<uint64_t> mapped;
    const int device = device_at(address);
    for (const use &each : uses_) {
        auto *what = static_cast<fakes::registration *>(each.region->handle);
        all += each.device == device && mapped.insert(what->mapping).second
                   ? what->length
                   : 0;
        here += used.insert(each.region).second && each.nic == nic
                    ? what->length
                    : 0;
    }
    return all > max_bytes_ || here > nic_bytes_ ||
           used.size() + 1 > settings_.max_regions;
}

int model::device_at(uintptr_t address) const
{
    ucx_ib_dmabuf::allocation memory;
    gpu_.look(address, &memory);
    return memory.device;
}

// An event in the memory of an unused region ends it.
void model::check_invalidated(uintptr_t address, size_t length)
{
    const auto event = ucx_ib_dmabuf::make_range(address, length);
    for (auto &nic : nics_) {
        nic->each([&](const fakes::registration &each) {
            const ucx_ib_dmabuf::address_range all{each.address,
                                                   each.address + each.length};
            for (const fakes::segment &part : each.segments) {
                const auto bytes = ucx_ib_dmabuf::intersection(
                    all, {part.base, part.base + part.size});
                expect(!event.overlaps(bytes) || is_used(each),
                       "what an event touches is still registered");
            }
        });
    }
}

void model::check_contents(const use &what)
{
    auto *there = static_cast<fakes::registration *>(what.region->handle);
    expect(there->live, "a region in use is not registered");
    expect(what.region->address == there->address &&
               what.region->length == there->length,
           "a region is not what was registered");
    expect(what.region->address <= what.address &&
               what.address + what.length <=
                   what.region->address + what.region->length,
           "a region does not cover what was asked for");
    for (uintptr_t at = what.address; at < what.address + what.length;
         at           = (at | (512 * KiB - 1)) + 1) {
        expect(there->id_at(at) == gpu_.id_at(at),
               "a region reaches other memory than is there");
    }
}

void model::judge(unsigned nic, uintptr_t address, size_t length,
                  ucs_status_t got, const region *region)
{
    ucs_status_t should = UCS_ERR_INVALID_PARAM;
    if (length != 0 && length <= UINTPTR_MAX - address) {
        should = gpu_.judge(address, length);
    }
    if (got == UCS_OK) {
        expect(should == UCS_OK, "got a region of what cannot be registered");
        check_contents({region, nic, address, length, 0, false});
        return;
    }
    if (should != UCS_OK) {
        expect(got == should || fault_armed_, "the wrong error");
    } else {
        expect(got != UCS_INPROGRESS && got != UCS_ERR_CANCELED &&
                   got != UCS_ERR_BUSY,
               "an error that is the cache's own");
        // The error may be about the memory that was replaced meanwhile.
        expect(no_room(nic, address, length) || refused_ ||
                   (got == UCS_ERR_IO_ERROR && target_ != nullptr) ||
                   failed_.count({nic, failed_as(address)}) != 0,
               "declined without reason");
    }
}

// An allocation no larger than a chunk gets one registration, as long as there
// is room for it.
void model::judge_hit(unsigned nic, uintptr_t address, uint64_t registered,
                      const region *got)
{
    std::pair<unsigned, uint64_t> what{nic, gpu_.id_at(address)};
    if (!is_plain(address) || max_bytes_ != SIZE_MAX ||
        nic_bytes_ != SIZE_MAX || settings_.max_regions != SIZE_MAX ||
        fault_armed_ || settings_.chunk_size < 32 * MiB) {
        return;
    }
    expect(known_.count(what) == 0 || nics_[nic]->registered == registered,
           "registered what was registered already");
    // After a failure the region may cover only a part.
    ucx_ib_dmabuf::allocation memory;
    if (gpu_.look(address, &memory) == UCS_OK &&
        got->address + got->length >= memory.base + memory.size &&
        got->address <= memory.base) {
        known_.insert(what);
    }
}

// Returns whether a region in use, which other users can find, covers the
// range.
bool model::in_use(unsigned nic, uintptr_t address, size_t length) const
{
    return !missed_ && length != 0 &&
           std::any_of(uses_.begin(), uses_.end(), [&](const use &each) {
               return each.found && each.nic == nic &&
                      each.address <= address &&
                      length <= each.length - (address - each.address) &&
                      address - each.address < each.length;
           });
}

// A larger region may have replaced one that is in use, and have been evicted.
void model::see_evictions()
{
    const uint64_t now = counters().evictions;
    if (now == evictions_) {
        return;
    }
    evictions_ = now;
    for (use &each : uses_) {
        const region *found = cache_->find(each.nic, each.address, each.length);
        cache_->put(found);
        each.found &= found != nullptr;
    }
}

bool model::is_found(unsigned nic, uintptr_t address, size_t length,
                     const region *got)
{
    const region *again = nullptr;
    if (fault_armed_ || cache_->get(nic, address, length, &again) != UCS_OK) {
        return false;
    }
    cache_->put(again);
    return again == got;
}

void model::something_changed()
{
    refused_ = false;
    for (use &each : uses_) {
        each.found = false;
    }
}

bool model::is_plain(uintptr_t address)
{
    return address < vmm_base || address >= high_base;
}

// VMM segments are registered together, so any of them may have failed.
uint64_t model::failed_as(uintptr_t address) const
{
    return is_plain(address) ? gpu_.id_at(address) : 0;
}

uint64_t model::costly_calls() const
{
    uint64_t calls = gpu_.export_faults.calls();
    for (auto &nic : nics_) {
        calls += nic->reg_faults.calls();
    }
    return calls;
}

// A permanent failure costs nothing the next time. A fault hits one call only,
// so the attempt that failed is not the get's first one.
void model::judge_failure(unsigned nic, uintptr_t address, size_t length,
                          ucs_status_t status)
{
    bool described = gpu_.describe_faults.hit();
    bool exported  = gpu_.export_faults.hit();
    disarm();
    if (status != UCS_ERR_IO_ERROR || described || target_ != nullptr) {
        return;
    }
    uint64_t before   = costly_calls();
    const region *got = nullptr;
    ucs_status_t again =
        is_plain(address) ? cache_->get(nic, address, length, &got) : status;
    expect(again == status, "what failed for good is forgotten");
    expect(costly_calls() == before, "what failed for good is tried again");
    for (unsigned i = 0; i < nic_count; ++i) {
        if (i == nic || exported) {
            failed_.insert({i, failed_as(address)});
        }
    }
}

bool model::current(const fakes::registration &what) const
{
    return std::all_of(
        what.segments.begin(), what.segments.end(),
        [&](const fakes::segment &p) { return gpu_.id_at(p.base) == p.id; });
}

bool model::is_used(const fakes::registration &what) const
{
    return std::any_of(uses_.begin(), uses_.end(), [&](const use &each) {
        return each.region->handle == &what;
    });
}

// An unused registration may exist only as long as its memory does.
void model::check_idle(const fakes::registration &what)
{
    expect(is_used(what) || missed_ || current(what),
           "released memory is registered and nobody uses it");
}

void model::check_all()
{
    cache_->flush();
    size_t count = 0, bytes = 0;
    for (auto &nic : nics_) {
        nic->each([&](const fakes::registration &each) {
            check_idle(each);
            ++count;
            bytes += each.length;
        });
    }
    const fakes::counters now;
    expect(now.regions == count, "the number of regions is wrong");
    expect(now.registered_bytes == bytes, "the number of bytes is wrong");
    expect(count <= settings_.max_regions, "more regions than allowed");
    expect(now.mapped_bytes == gpu_.mapped(0) + gpu_.mapped(1),
           "the number of bytes that are mapped is wrong");
    expect(gpu_.mapped(0) <= max_bytes_ && gpu_.mapped(1) <= max_bytes_,
           "more of a GPU is mapped than allowed");
    for (const use &each : uses_) {
        auto *what = static_cast<fakes::registration *>(each.region->handle);
        expect(what->live || !current(*what),
               "a region in use is not registered");
    }
    expect(count_fds() == open_fds_, "a file descriptor is left");
    expect(fakes::complaints == 0, "the fakes complained");
}
