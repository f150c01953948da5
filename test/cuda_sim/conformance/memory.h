// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../compat.h"

#include <common/gpu.h>
#include <cstdint>

namespace ucx_ib_dmabuf::conformance {

inline constexpr size_t KiB = 1024, MiB = 1024 * KiB, GiB = 1024 * MiB;

uint64_t host_page();

CUresult export_range(int *fd, CUdeviceptr address, size_t size,
                      unsigned long long flags = 0);

// As above, but closes the descriptor.
CUresult try_export(CUdeviceptr address, size_t size,
                    unsigned long long flags = 0);

// Returns 0 if the address is unknown.
unsigned long long buffer_id(CUdeviceptr address);

// Returns a numeric pointer attribute; -1 if the query fails.
long long number(CUpointer_attribute which, CUdeviceptr address);

// Copies a byte to the host and waits for it.
CUresult copy_in(CUstream stream, CUdeviceptr address);
// The same in a new stream, which waits for no other stream.
CUresult copy_in_own_stream(CUdeviceptr address);

} // namespace ucx_ib_dmabuf::conformance
