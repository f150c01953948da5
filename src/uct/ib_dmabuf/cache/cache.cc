// SPDX-License-Identifier: BSD-3-Clause
#include "cache.h"
#include "engine.h"

namespace ucx_ib_dmabuf {

cache::cache(exporter &memory, const cache_settings &settings)
    : engine_(std::make_unique<engine>(memory, settings))
{
}

cache::~cache() = default;

cache::nic_id cache::attach(registrar &nic)
{
    return engine_->attach(nic);
}

void cache::detach(nic_id nic)
{
    engine_->detach(nic);
}

ucs_status_t cache::get(nic_id nic, uintptr_t address, size_t length,
                        const region **out, effort how)
{
    return engine_->get(nic, address, length, out, how);
}

const region *cache::find(nic_id nic, uintptr_t address, size_t length) noexcept
{
    return engine_->find(nic, address, length);
}

void cache::put(const region *used) noexcept
{
    if (used != nullptr) {
        // Regions are only ever made as these, which are not const.
        engine_->put(static_cast<cached_region *>(const_cast<region *>(used)));
    }
}

void cache::invalidate(uintptr_t address, size_t length)
{
    if (length != 0) {
        engine_->invalidate(make_span(address, length));
    }
}

void cache::release(uintptr_t address, size_t length)
{
    if (length != 0) {
        engine_->invalidate(make_span(address, length), true);
    }
}

void cache::drop(nic_id nic)
{
    engine_->drop(nic);
}

bool cache::is_revoked(const region *used) const
{
    return engine_->is_revoked(static_cast<const cached_region *>(used));
}

bool cache::flush()
{
    return engine_->flush();
}

void cache::check_identity()
{
    engine_->check_identity();
}

bool cache::needs_each_use() const
{
    return engine_->needs_each_use();
}

void cache::read_counters(cache_counters *out) const
{
    engine_->read_counters(out);
}

} // namespace ucx_ib_dmabuf
