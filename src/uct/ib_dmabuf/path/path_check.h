// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "reg_methods.h"
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>

namespace ucx_ib_dmabuf {

// Bytes that a check needs of GPU memory, from a multiple of 8 on.
constexpr size_t check_size = 53248;
// Host memory: twice that, and a word for reads that flush writes.
constexpr size_t check_host_size = 2 * check_size + 8;

// Checks that the NIC reads and writes the GPU's memory correctly, if a method
// registers it: in the probe, or else in memory that is allocated for the
// check.
check_result check_path(const protection_domain &pd, gpu_vendor &gpus, int gpu,
                        reg_method method, dmabuf_registrar &by,
                        const registered_buffer *probe);

// The same in registered memory of GPU and host, by both keys. Overwrites both.
// The first round uses `to`, if that is open.
check_result check_buffers(const protection_domain &pd, gpu_vendor &gpus,
                           const registered_buffer &gpu,
                           const registered_buffer &host, connection to = {});

// The parts of check_buffers(). An error with GPU memory counts only if host
// memory works. Success shows that, too, so host memory alone is checked only
// after an error.
check_result check_gpu(loopback &nic, gpu_vendor &gpus,
                       const registered_buffer &gpu,
                       const registered_buffer &host);
// With host memory in the place of the GPU's. Returns the error, if any.
std::optional<text> check_host(loopback &nic, gpu_vendor &gpus,
                               const registered_buffer &host);

} // namespace ucx_ib_dmabuf
