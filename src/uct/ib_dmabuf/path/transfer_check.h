// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "queue_pair.h"
#include "reg_methods.h"
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>

namespace ucx_ib_dmabuf {

struct verdict {
    finding what;
    text why; // empty for `carries`
    // The NIC does not reach itself: all its paths are unknown.
    bool for_the_nic = false;
};

// Bytes that a proof needs of GPU memory, from a multiple of 8 on.
constexpr size_t proof_size = 53248;
// Host memory: twice that, and a word for reads that flush writes.
constexpr size_t proof_host_size = 2 * proof_size + 8;

// Proves that the NIC reads and writes GPU memory correctly, by either of its
// keys. The GPU's driver fills and reads that memory. Overwrites both.
verdict prove(const connector &connect, gpu_vendor &gpus, const place &gpu,
              const place &host);

// The parts of prove(). Returns the error of the wire with host memory only, if
// there is one:
std::optional<text> try_host(wire &nic, gpu_vendor &gpus, const place &host);
// And with GPU memory. An error counts only if host memory works. Success
// proves that, too, so host memory is tested only after an error.
verdict try_gpu(wire &nic, gpu_vendor &gpus, const place &gpu,
                const place &host);

} // namespace ucx_ib_dmabuf
