// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "reg_methods.h"
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>

namespace ucx_ib_dmabuf {

// Registers a probe of each GPU's memory, and has the path checked in it, once
// for each pair. If a failed registration has no fallback, UCX has to know this
// before it chooses a protocol. Returns false if the NIC cannot register the
// memory of any GPU that can be probed (logged). A GPU that is not in use
// cannot be probed; returns true if none can. `ask_others`: as in
// rcache_settings.
bool registers_gpu_memory(gpu_vendor &gpus, reg_methods &nic,
                          bool (*ask_others)());

} // namespace ucx_ib_dmabuf
