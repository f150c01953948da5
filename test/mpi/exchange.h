// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "job.h"
#include <vector>

namespace ucx_ib_dmabuf::test {

// The kind of this rank's memory: rank 0 has the first one, the others the
// second.
inline memory mine_of(const job &in, memory first, memory second)
{
    return in.rank == 0 ? first : second;
}

// Sends a message between the first two ranks, in the memory that each passes,
// and checks all bytes. UCX's copies of it are counted.
void one_way(job &in, uint8_t *mine, memory kind, size_t length, int sender);
// Sends a message from rank 0 to rank 1, and one back.
void exchange_at(job &in, uint8_t *mine, memory kind, size_t length);

// Memory that no message uses, and that must stay unchanged.
class bystanders {
public:
    explicit bystanders(job &in) : job_(in) {}

    void add(uint8_t *data, memory kind, size_t length);
    void expect_unchanged(const char *when) const;

private:
    struct one {
        uint8_t *data;
        memory kind;
        size_t length;
        uint64_t number;
    };

    job &job_;
    std::vector<one> all_;
};

} // namespace ucx_ib_dmabuf::test
