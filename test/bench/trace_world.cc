// SPDX-License-Identifier: BSD-3-Clause
#include "trace_world.h"
#include <cstdlib>

using ucx_ib_dmabuf::extent;

bool costs::set(const std::string &text)
{
    const struct {
        const char *name;
        double *value;
    } all[]           = {{"query", &query}, {"export", &export_},
                         {"reg", &reg},     {"reg_byte", &reg_byte},
                         {"pin", &pin},     {"pin_byte", &pin_byte},
                         {"dereg", &dereg}};
    const size_t sign = text.find('=');
    for (const auto &one : all) {
        char *end = nullptr;
        if (sign != std::string::npos && text.substr(0, sign) == one.name) {
            *one.value = strtod(text.c_str() + sign + 1, &end);
            return *end == '\0' && end != text.c_str() + sign + 1 &&
                   *one.value >= 0;
        }
    }
    return false;
}

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

// The driver is asked for attributes, and if there are any for the address
// range.
ucs_status_t trace_gpus::describe(uintptr_t address, extent *out)
{
    const trace_block *block = at(address);
    spent_.query(price_, block == nullptr ? 1 : 2);
    if (block == nullptr) {
        return UCS_ERR_NO_ELEM;
    }
    *out = {block->base, block->size, block->id, block->device, block->vmm};
    return UCS_OK;
}

bool trace_gpus::is_current(uintptr_t address, uint64_t identity)
{
    const trace_block *block = at(address);
    spent_.query(price_, 1);
    return block != nullptr && block->id == identity;
}
