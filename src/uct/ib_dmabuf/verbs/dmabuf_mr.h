// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_VERBS_DMABUF_MR_H_
#define UCX_IB_DMABUF_VERBS_DMABUF_MR_H_

#include "../host/types.h"
#include "../host/verbs.h"
#include "../report.h"

namespace ucx_ib_dmabuf {

// Whether device, provider and kernel register dma-bufs. Asked by trying: an fd
// that is none is refused with EBADF by those that do, with EOPNOTSUPP or
// EPROTONOSUPPORT by those that do not (ibv_reg_dmabuf_mr(3)). If not, `why`
// tells cause and remedy.
bool verbs_can_register_dmabuf(const protection_domain &pd, text *why);

// Logs an error that the provider gives.
void verbs_dereg_mr(const verbs_functions &verbs, ibv_mr *mr);

} // namespace ucx_ib_dmabuf

#endif
