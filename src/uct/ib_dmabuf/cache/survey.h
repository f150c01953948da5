// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_SURVEY_H_
#define UCX_IB_DMABUF_CACHE_SURVEY_H_

#include "span.h"
#include <array>

namespace ucx_ib_dmabuf {

// Allocations in whose place the index was searched and has nothing of other
// identities, so that a miss need not search a large one again. Under the
// cache's lock.
class survey {
public:
    bool has(span memory, uint64_t identity) const
    {
        for (const place &each : all_) {
            if (each.identity == identity && each.memory.covers(memory)) {
                return true;
            }
        }
        return false;
    }
    void add(span memory, uint64_t identity)
    {
        all_[next_] = {memory, identity};
        next_       = (next_ + 1) % all_.size();
    }
    // Something of that identity comes into the index.
    void forget_others(span memory, uint64_t identity)
    {
        for (place &each : all_) {
            if (each.identity != identity && each.memory.overlaps(memory)) {
                each = {};
            }
        }
    }

private:
    struct place {
        span memory;
        uint64_t identity = 0;
    };
    std::array<place, 8> all_;
    unsigned next_ = 0;
};

} // namespace ucx_ib_dmabuf

#endif
