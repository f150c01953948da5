// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace ucx_ib_dmabuf::sim {

// Whether exports are real dma-bufs.
bool dmabuf_is_real();

} // namespace ucx_ib_dmabuf::sim
