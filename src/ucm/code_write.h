// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_UCM_CODE_WRITE_H_
#define UCX_IB_DMABUF_UCM_CODE_WRITE_H_

namespace ucx_ib_dmabuf::ucm {

// Makes a function begin with a jump (5 bytes) to a target within 2 GiB, while
// other threads run it. They find the old instructions or the jump, never a
// part of it. Callers serialise. Returns null, or why it is impossible (a
// string constant); then nothing was changed.
const char *write_jump(void *function, const void *target);

} // namespace ucx_ib_dmabuf::ucm

#endif
