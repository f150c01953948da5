// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TOOLS_TABLE_H_
#define UCX_IB_DMABUF_TOOLS_TABLE_H_

#include "counts.h"
#include <cstdio>
#include <deque>

namespace ucx_ib_dmabuf::info {

// What is shown of a program that is watched.
struct shown_program {
    int pid = 0;
    std::string name{}; // any bytes
    bool answers = false;
    counts now{}, before{};
    std::deque<uint64_t> history{}; // of lookups, the last one at its end

    uint64_t lookups() const;
};

// How many rounds the history is of.
constexpr size_t history_length = 40;

struct table_style {
    bool in_place = false; // on a terminal, whose size is kept to
    bool unicode  = false;
};

// A round: those first that looked up most.
void print_table(std::vector<const shown_program *> rows,
                 const table_style &how, FILE *to);

} // namespace ucx_ib_dmabuf::info

#endif
