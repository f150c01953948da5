// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_CALLER_H_
#define UCX_IB_DMABUF_MD_CALLER_H_

namespace ucx_ib_dmabuf {

// Whether UCT was called by that function of another library, which exports it.
// False also where that cannot be told. `name` must always be the same one. A
// stack walk of a few frames; the first time also symbol look-ups.
bool uct_is_called_by(const char *name);

} // namespace ucx_ib_dmabuf

#endif
