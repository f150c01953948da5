// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TOOLS_WATCH_H_
#define UCX_IB_DMABUF_TOOLS_WATCH_H_

#include <cstdio>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf::info {

struct watch_options {
    // These and what they started; none: all that may be looked into.
    std::vector<int> pids{};
    unsigned rounds = 0;     // 0: until a signal, or until none is left
    bool json       = false; // each process's own line, as it is
    bool in_place = false; // on a terminal: a round takes the last one's place
    bool unicode  = false; // the terminal's characters
};

// Once a second what the plug-in counts in running programs, those that do most
// first. Status: 0, or 1 if there was none.
int watch(const watch_options &how, FILE *to);

} // namespace ucx_ib_dmabuf::info

#endif
