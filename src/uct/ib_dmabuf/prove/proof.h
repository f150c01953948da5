// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../gpu.h"
#include "../verbs/ladder.h"
#include "wire.h"

namespace ucx_ib_dmabuf {

struct verdict {
    finding what;
    text why; // not for `carries`
    // Unknown, as the NIC does not reach itself: so are all its paths.
    bool for_the_nic = false;
};

// How much memory a proof needs of each kind, from a multiple of 8 on.
constexpr size_t proof_size = 53248;
// Host memory: twice that, and a word for what only follows other bytes.
constexpr size_t proof_host_size = 2 * proof_size + 8;

// Whether the NIC carries what is in the GPU's memory, both ways, by both of
// its keys; what the GPU has is told and asked by its driver. Overwrites both.
verdict prove(const connector &connect, gpu_vendor &gpus, const place &gpu,
              const place &host);

// What that is made of. What the wire does wrong with host memory only, if
// anything:
std::optional<text> try_host(wire &nic, gpu_vendor &gpus, const place &host);
// And with the GPU's. That counts only if host memory is carried: a path that
// carries has shown that, too, so only then it need be asked.
verdict try_gpu(wire &nic, gpu_vendor &gpus, const place &gpu,
                const place &host);

} // namespace ucx_ib_dmabuf
