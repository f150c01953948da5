// SPDX-License-Identifier: BSD-3-Clause
//
// The window through which a NIC reaches a GPU's memory. With the real driver a
// dma-buf uses the window while it is attached. Attachments are not visible
// here, so every existing dma-buf uses it. The kernel lists dma-bufs in its
// debug file system. If the list cannot be read, each export is compared with
// the whole window by itself.
#pragma once

#include <cstdint>

namespace ucx_ib_dmabuf::sim {

uint64_t bar1_used(int device);
uint64_t bar1_free(int device);

// Names a dma-buf, so that it is found in the kernel's list.
void bar1_name(int fd, int device);

} // namespace ucx_ib_dmabuf::sim
