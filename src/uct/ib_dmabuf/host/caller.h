// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_CALLER_H_
#define UCX_IB_DMABUF_HOST_CALLER_H_

#include <cstdint>

namespace ucx_ib_dmabuf {

// Whether UCP 1.13 registers for one operation, with these flags of mem_reg. To
// be asked in mem_reg. False also where that cannot be told. A stack walk of a
// few frames; the first time also symbol look-ups.
bool ucp_registers_for_one_operation(uint64_t flags);

} // namespace ucx_ib_dmabuf

#endif
