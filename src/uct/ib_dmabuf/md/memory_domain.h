// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_MEMORY_DOMAIN_H_
#define UCX_IB_DMABUF_MD_MEMORY_DOMAIN_H_

#include "../host/domain.h"

namespace ucx_ib_dmabuf {

// A domain that takes GPU memory, where device and GPU can; null where they
// cannot, which is reported.
std::unique_ptr<domain> decorate(const original_domain &original);

} // namespace ucx_ib_dmabuf

#endif
