// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "costs.h"
#include <common/fakes.h>

inline uintptr_t end_of(const ucx_ib_dmabuf::extent &memory)
{
    return memory.base + memory.size;
}

// Fake GPUs whose calls are paid for, and what a trace may do with their
// memory.
class trace_gpus : public fakes::gpu {
public:
    trace_gpus(const costs &price, account &spent)
        : price_(price), spent_(spent)
    {
        each_call = [this](fakes::call what, uintptr_t address, size_t length) {
            pay(what, address, length);
        };
    }

    // What is there; of no size if nothing is.
    ucx_ib_dmabuf::extent at(uintptr_t address) const
    {
        ucx_ib_dmabuf::extent there;
        look(address, &there);
        return there;
    }
    // The allocation or VMM segments at a range that is_one(), up to the end of
    // the last that the range touches.
    ucx_ib_dmabuf::extent around(uintptr_t address, size_t length) const
    {
        ucx_ib_dmabuf::extent all = at(address);
        all.size                  = end_of(at(address + length - 1)) - all.base;
        return all;
    }
    // Whether the range is one allocation's, or that of VMM segments in a row.
    bool is_one(uintptr_t address, size_t length) const
    {
        return judge(address, length) == UCS_OK;
    }

private:
    void pay(fakes::call what, uintptr_t address, size_t length)
    {
        switch (what) {
        case fakes::call::describe:
            // The driver is asked for attributes, and if there are any for the
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
