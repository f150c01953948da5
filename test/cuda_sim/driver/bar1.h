// SPDX-License-Identifier: BSD-3-Clause
//
// The window through which a NIC reaches a GPU's memory. The real driver takes
// room in it while a dma-buf is attached; what is attached cannot be seen from
// here, so room is taken by every dma-buf that exists. The kernel lists those
// in its debug file system; where that cannot be read, each export is held
// against the whole window by itself.
#pragma once

#include <cstdint>

namespace ucx_ib_dmabuf::sim {

uint64_t bar1_used(int device);
uint64_t bar1_free(int device);

// Name a dma-buf so that it is found in the kernel's list.
void bar1_name(int fd, int device);

} // namespace ucx_ib_dmabuf::sim
