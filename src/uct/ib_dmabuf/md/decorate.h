// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_DECORATE_H_
#define UCX_IB_DMABUF_MD_DECORATE_H_

namespace ucx_ib_dmabuf {

// From now on every memory domain that uct_ib opens takes CUDA memory, where
// device and GPU can. There is one implementation for each generation of UCX.
void decorate_uct_ib();

// Change UCP's default to registering what is used, if UCP is loaded.
void register_what_is_used() noexcept;

} // namespace ucx_ib_dmabuf

#endif
