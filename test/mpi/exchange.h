// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "job.h"
#include <vector>

namespace ucx_ib_dmabuf::test {

// A message from one of the first two ranks to the other, of the memory that
// each has there; all bytes are checked. What UCX copies of them counts.
void one_way(job &in, uint8_t *mine, memory kind, size_t length, int sender);
// From rank 0 to rank 1, and one back.
void exchange_at(job &in, uint8_t *mine, memory kind, size_t length);

// Memory that is not a message's, and stays as it is.
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
