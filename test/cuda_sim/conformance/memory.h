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

// As above; the descriptor is closed.
CUresult try_export(CUdeviceptr address, size_t size,
                    unsigned long long flags = 0);

// 0 where the address is unknown.
unsigned long long buffer_id(CUdeviceptr address);

// A pointer attribute that is a number; -1 where it cannot be had.
long long number(CUpointer_attribute which, CUdeviceptr address);

size_t free_bytes();

// A byte to the host; until it is there.
CUresult copy_in(CUstream stream, CUdeviceptr address);
// The same in a new stream, which waits for no other.
CUresult copy_in_own_stream(CUdeviceptr address);

} // namespace ucx_ib_dmabuf::conformance
