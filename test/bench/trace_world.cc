// SPDX-License-Identifier: BSD-3-Clause
#include "trace_world.h"

using ucx_ib_dmabuf::extent;

const trace_block *trace_gpus::at(uintptr_t address) const
{
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) {
        return nullptr;
    }
    const trace_block &before = std::prev(after)->second;
    return address < before.end() ? &before : nullptr;
}

bool trace_gpus::is_one(uintptr_t address, size_t length) const
{
    const trace_block *first = at(address);
    for (const trace_block *block = first; block != nullptr;
         block                    = at(block->end())) {
        if ((block != first) &&
            (!first->vmm || !block->vmm || (block->device != first->device))) {
            return false;
        }
        if (block->end() >= address + length) {
            return true;
        }
    }
    return false;
}

trace_block trace_gpus::around(uintptr_t address, size_t length) const
{
    trace_block result = *at(address);
    result.size        = at(address + length - 1)->end() - result.base;
    return result;
}

// The VMM segments that the range touches are one extent. For each the driver
// is asked for attributes and the address range.
ucs_status_t trace_gpus::describe(uintptr_t address, size_t length, extent *out)
{
    spent_.query(price_, 2);
    const trace_block *block = at(address);
    if (block == nullptr) {
        return UCS_ERR_NO_ELEM;
    }
    if (!is_one(address, length)) {
        return UCS_ERR_INVALID_PARAM;
    }
    *out = {block->base, block->size, block->id, block->device, 2, true};
    while (out->base + out->size < address + length) {
        spent_.query(price_, 2);
        block = at(block->end());
        out->size += block->size;
        out->identity = out->identity * 1000003 + block->id;
    }
    return UCS_OK;
}

bool trace_gpus::is_current(uintptr_t address, size_t length, uint64_t identity)
{
    account before = spent_;
    extent now;
    const bool same =
        describe(address, length, &now) == UCS_OK && now.identity == identity;
    spent_ = before;
    spent_.query(price_, 1);
    return same;
}
