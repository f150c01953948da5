// SPDX-License-Identifier: BSD-3-Clause
#include "model.h"
#include <algorithm>
#include <common/elsewhere.h>
#include <common/fds.h>
#include <cstdio>
#include <cstdlib>

using ucx_ib_dmabuf::region;

model::model(source &choices) : choices_(choices), open_fds_(count_fds())
{
    for (size_t i = 0; i < 16; ++i) {
        places_.push_back({small_base + i * 64 * KiB, 64 * KiB, false});
        places_.push_back({large_base + i * 32 * MiB, 32 * MiB, false});
        places_.push_back({vmm_base + i * 2 * MiB, 2 * MiB, true});
    }
    for (size_t i = 0; i < 3; ++i) {
        places_.push_back({high_base + i * 512 * KiB, 512 * KiB, false});
    }
    restart();
}

model::~model()
{
    disarm();
    while (!uses_.empty()) {
        put();
    }
    check_all();
    cache_.reset();
    for (auto &nic : nics_) {
        expect(nic->live() == 0, "something is registered at the end");
    }
}

void model::wrong(const char *what) const
{
    fprintf(stderr, "model: %s, in step %zu (%s)\n", what,
            static_cast<size_t>(steps), origin.c_str());
    abort();
}

void model::restart()
{
    disarm();
    while (!uses_.empty()) {
        put();
    }
    if (cache_ != nullptr) {
        check_all();
        if (choices_.below(2) == 0) {
            cache_->detach(1);
            cache_->detach(0);
        }
        cache_.reset();
    }
    for (auto &nic : nics_) {
        expect(nic->live() == 0, "something is registered after detach");
    }
    known_.clear();
    failed_.clear();
    nics_.clear();
    evictions_ = 0;
    missed_ = refused_ = false;
    checks_            = choices_.below(3) == 0;
    max_bytes_ =
        choices_.below(2) == 0 ? SIZE_MAX : (1 + choices_.below(40)) * MiB;
    nic_bytes_ =
        choices_.below(3) != 0 ? SIZE_MAX : (1 + choices_.below(40)) * MiB;
    settings_.chunk_size =
        choices_.below(2) == 0 ? size_t{4} * MiB : size_t{1} << 32;
    settings_.max_regions =
        choices_.below(3) != 0 ? SIZE_MAX : 1 + choices_.below(12);
    settings_.check_identity = checks_;
    settings_.deferred_size  = choices_.below(2) == 0 ? SIZE_MAX : MiB;
    settings_.max_bytes      = [this](int) { return max_bytes_; };
    ucx_ib_dmabuf::process_counters.clear();
    cache_ = std::make_unique<ucx_ib_dmabuf::rcache>(gpu_, settings_);
    for (unsigned i = 0; i < nic_count; ++i) {
        nics_.push_back(std::make_unique<fakes::nic>(gpu_, nic_bytes_));
        expect(cache_->attach(*nics_[i]) == i, "NICs are numbered in order");
    }
}

void model::step()
{
    ++steps;
    uint32_t what = choices_.below(1000);
    if (what < 150) {
        alloc_or_free();
    } else if (what < 550) {
        get(false);
    } else if (what < 750) {
        get(true);
    } else if (what < 950) {
        put();
    } else if (what < 965) {
        invalidate();
    } else if (what < 985) {
        get_with_fault();
    } else if (what < 992) {
        replace_while_registering();
    } else if (what < 994) {
        check_all();
    } else if (what < 995 && !checks_) {
        cache_->check_identity();
        checks_ = true;
    } else if (what == 999 && choices_.below(20) == 0) {
        restart();
    } else if (what == 998 && forks && choices_.below(200) == 0) {
        fork_child();
    }
}

void model::disarm()
{
    gpu_.describe_faults.clear();
    gpu_.export_faults.clear();
    for (auto &nic : nics_) {
        nic->reg_faults.clear();
    }
    fault_armed_ = false;
}

// A get during which a call fails.
void model::get_with_fault()
{
    static constexpr ucs_status_t statuses[] = {
        UCS_ERR_IO_ERROR, UCS_ERR_NO_MEMORY, UCS_ERR_EXCEEDS_LIMIT};
    ucs_status_t status = statuses[choices_.below(3)];
    uint64_t call       = 1 + choices_.below(3);
    switch (choices_.below(4)) {
    case 0:
        gpu_.describe_faults.fail_call(call, status);
        break;
    case 1:
        gpu_.export_faults.fail_call(call, status);
        break;
    default:
        nics_[choices_.below(nic_count)]->reg_faults.fail_call(call, status);
    }
    fault_armed_ = true;
    refused_ |= status != UCS_ERR_IO_ERROR; // even if a smaller range succeeds
    get(choices_.below(2) == 0);
    disarm();
}

void model::free_at(const place &where, bool tell)
{
    size_t size = gpu_.size_at(where.base);
    if (tell) {
        something_changed();
        cache_->invalidate(where.base, size);
    } else {
        missed_ = true;
    }
    uint64_t id = gpu_.id_at(where.base);
    std::erase_if(known_, [&](auto &each) { return each.second == id; });
    gpu_.free(where.base);
}

// Some frees send no event if identity is checked.
void model::alloc_or_free()
{
    const place &where = places_[choices_.below(places_.size())];
    if (gpu_.allocated(where.base)) {
        free_at(where, !checks_ || choices_.below(2) == 0);
        return;
    }
    size_t size = where.room;
    if (!where.vmm) {
        size = page * (1 + choices_.below(where.room / page));
        size -= choices_.below(2) * 512;
    }
    int device = where.vmm ? 0 : choices_.below(2);
    gpu_.alloc(where.base, size, device, choices_.below(20) != 0 || where.vmm,
               where.vmm);
}

bool model::choose_range(uintptr_t *address, size_t *length)
{
    const place &where =
        target_ != nullptr ? *target_ : places_[choices_.below(places_.size())];
    size_t size   = gpu_.size_at(where.base);
    size_t room   = size == 0 ? page : size;
    size_t offset = choices_.below(static_cast<uint32_t>(room));
    *address      = where.base + offset;
    switch (choices_.below(8)) {
    case 0:
        *length = choices_.below(static_cast<uint32_t>(room)) * 2;
        break;
    case 1:
        *address = where.base;
        *length  = room;
        break;
    case 2:
        *length = SIZE_MAX - choices_.below(2) * where.base;
        break;
    default:
        *length = 1 + choices_.below(static_cast<uint32_t>(room - offset));
    }
    return true;
}

void model::get(bool keep)
{
    uintptr_t address;
    size_t length;
    choose_range(&address, &length);
    if (keep && uses_.size() > 24) {
        put();
    }
    unsigned nic        = choices_.below(nic_count);
    uint64_t registered = nics_[nic]->registered;
    uint64_t evicted    = counters().evictions;
    see_evictions();
    bool used           = in_use(nic, address, length);
    const region *got   = nullptr;
    ucs_status_t status = cache_->get(nic, address, length, &got);
    expect(!used || nics_[nic]->registered == registered,
           "registered what is registered and in use");
    if (counters().evictions != evicted) {
        known_.clear();
    }
    judge(nic, address, length, status, got);
    if (status != UCS_OK) {
        judge_failure(nic, address, length, status);
        return;
    }
    judge_hit(nic, address, registered, got);
    uses_.push_back({got, nic, address, length, device_at(address),
                     keep && is_found(nic, address, length, got)});
    if (!keep) {
        std::swap(uses_.back(), uses_[choices_.below(uses_.size())]);
        put();
    }
}

void model::put()
{
    if (uses_.empty()) {
        return;
    }
    size_t which = choices_.below(uses_.size());
    use last     = uses_[which];
    uses_[which] = uses_.back();
    uses_.pop_back();
    auto *what = static_cast<fakes::registration *>(last.region->handle);
    // If a part was replaced, the region is deregistered early: its keys would
    // reach the old memory.
    expect(what->live || !current(*what), "deregistered before its last use");
    cache_->put(last.region, last.address, last.length);
    cache_->flush();
    bool used = std::any_of(uses_.begin(), uses_.end(), [&](const use &each) {
        return each.region == last.region;
    });
    expect(used ? what->live || !current(*what)
                : !what->live || missed_ || current(*what),
           "released memory is registered after its last use");
}

void model::invalidate()
{
    uintptr_t address;
    size_t length;
    choose_range(&address, &length);
    if (choices_.below(10) == 0) {
        address = 0;
        length  = SIZE_MAX;
    }
    if (length != 0) {
        something_changed();
    }
    cache_->invalidate(address, length);
    cache_->flush();
    if (length != 0) {
        check_invalidated(address, length);
    }
    known_.clear();
}

// Replaces the memory at an address while the cache registers it.
void model::replace_while_registering()
{
    const place &where = places_[choices_.below(places_.size())];
    if (!gpu_.allocated(where.base)) {
        return;
    }
    std::function<void()> *when[] = {&gpu_.after_describe, &gpu_.during_export,
                                     &nics_[0]->during_reg,
                                     &nics_[1]->during_reg};
    auto *moment                  = when[choices_.below(4)];
    bool tell                     = !checks_ || choices_.below(2) == 0;
    *moment                       = [this, where, tell] {
        if (gpu_.allocated(where.base)) {
            // The new memory is as exportable as the old: the result may be
            // about either.
            ucx_ib_dmabuf::allocation old;
            bool exportable = gpu_.look(where.base, &old) == UCS_OK;
            free_at(where, tell);
            gpu_.alloc(where.base, old.size, old.device, exportable, where.vmm);
        }
    };
    target_ = &where;
    get(choices_.below(2) == 0);
    target_ = nullptr;
    *moment = nullptr;
}

// A child of fork starts with an empty cache. The parent's regions have no
// effect in it, and its own registrations work.
void model::in_child()
{
    cache_->forget_parent();
    ucx_ib_dmabuf::process_counters.clear();
    uint64_t before   = nics_[0]->deregistered + nics_[1]->deregistered;
    const region *got = nullptr;
    expect(cache_->get(0, places_[0].base, 1, &got) == UCS_ERR_NO_DEVICE,
           "the child registers with the parent's NIC");
    gpu_.alloc(uintptr_t{5} << 40, 1 << 20);
    fakes::nic own(gpu_);
    auto id = cache_->attach(own);
    expect(id >= nic_count, "the parent's NIC was replaced");
    expect(cache_->get(id, uintptr_t{5} << 40, 7, &got) == UCS_OK,
           "the child cannot register");
    for (const use &each : uses_) {
        cache_->put(each.region);
    }
    cache_->invalidate(0, SIZE_MAX);
    cache_->put(got);
    cache_->flush();
    expect(own.live() == 0, "the child's region was not deregistered");
    cache_.reset();
    expect(nics_[0]->deregistered + nics_[1]->deregistered == before,
           "the child deregistered the parent's regions");
}

void model::fork_child()
{
    disarm();
    cache_->flush(); // the fakes do not support a fork during their calls
    const bool good = ::in_child([this] {
        in_child();
        return true;
    });
    expect(good, "the child failed");
}
