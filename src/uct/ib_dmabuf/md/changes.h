// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_CHANGES_H_
#define UCX_IB_DMABUF_MD_CHANGES_H_

#include <cstddef>

namespace ucx_ib_dmabuf {

// What changed in a copy of some bytes since it was made. A byte that is as
// before may have been written all the same, or may be another writer's: it is
// never taken for changed.

struct changed_run {
    size_t begin;
    size_t end; // equal to begin if there is none
};

// More bytes than this that are as before end a run.
constexpr size_t max_unchanged_gap = 4096;

// The first run at or after `from`. It begins and ends with bytes that changed.
changed_run find_changes(const char *now, const char *before, size_t from,
                         size_t length);

// Puts into `target` the bytes that changed, and leaves its others.
void merge_changes(char *target, const char *now, const char *before,
                   size_t length);

} // namespace ucx_ib_dmabuf

#endif
