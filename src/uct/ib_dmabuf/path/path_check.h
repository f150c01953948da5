// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "reg_methods.h"

namespace ucx_ib_dmabuf {

// Bytes that a check needs of GPU memory, from a multiple of 8 on.
constexpr size_t check_size = 53248;

// Checks that the NIC reads and writes the GPU's memory correctly, if a method
// registers it: in the probe, or else in memory that is allocated for the
// check.
check_result check_path(const protection_domain &pd, gpu_vendor &gpus, int gpu,
                        reg_method method, importer &by,
                        const registered_buffer *probe);

} // namespace ucx_ib_dmabuf
