// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "costs.h"
#include <common/fakes.h>

inline uintptr_t end_of(const ucx_ib_dmabuf::allocation &memory)
{
    return memory.base + memory.size;
}

// Fake GPUs that charge an account for their calls, and queries on the memory
// that a trace may use.
class trace_gpus : public fakes::gpu {
public:
    trace_gpus(const costs &price, account &spent)
        : price_(price), spent_(spent)
    {
        each_call = [this](fakes::call what, uintptr_t address, size_t length) {
            pay(what, address, length);
        };
    }

    // Returns the memory at the address; its size is 0 if there is none.
    ucx_ib_dmabuf::allocation at(uintptr_t address) const
    {
        ucx_ib_dmabuf::allocation there;
        look(address, &there);
        return there;
    }
    // For a range that is_one(): returns the allocation or VMM segments from
    // the one at its start to the end of the last one that it touches.
    ucx_ib_dmabuf::allocation around(uintptr_t address, size_t length) const
    {
        ucx_ib_dmabuf::allocation all = at(address);
        all.size = end_of(at(address + length - 1)) - all.base;
        return all;
    }
    // Whether the range lies in one allocation, or in adjacent VMM segments.
    bool is_one(uintptr_t address, size_t length) const
    {
        return judge(address, length) == UCS_OK;
    }

private:
    void pay(fakes::call what, uintptr_t address, size_t length)
    {
        switch (what) {
        case fakes::call::describe:
            // A query for attributes and, if there is memory, one for the
            // address range.
            spent_.query(price_, id_at(address) == 0 ? 1 : 2);
            break;
        case fakes::call::is_current:
            spent_.query(price_, 1);
            break;
        case fakes::call::export_range:
            spent_.make_export(price_);
            break;
        case fakes::call::reg:
            spent_.reg(price_, length);
            break;
        case fakes::call::dereg:
            spent_.dereg(price_);
            break;
        }
    }

    const costs &price_;
    account &spent_;
};
