// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_UCM_COMPLETENESS_H_
#define UCX_IB_DMABUF_UCM_COMPLETENESS_H_

#include "cuda_events.h"

namespace ucx_ib_dmabuf::ucm {

// Why releases may go unseen. Once noted, a gap stays.
enum class gap : unsigned {
    hooks  = 1, // a function could not be hooked
    graphs = 2, // graphs allocate memory
    memory = 4, // something could not be written down
};

// Notes a gap, and tells the subscriber if it is new: `why`, which only `hooks`
// needs. Takes no lock; call it with none held.
void note_gap(gap which, const char *why = nullptr) noexcept;

// Whether there is any.
bool has_gap() noexcept;

// The reasons of all gaps but `hooks`. May allocate memory.
std::string gap_reasons();

} // namespace ucx_ib_dmabuf::ucm

#endif
