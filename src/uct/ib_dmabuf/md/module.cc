// SPDX-License-Identifier: BSD-3-Clause
#include "memory_domain.h"
#include "process_state.h"
#include <uct/ib_dmabuf/cuda_copy/cuda_copy.h>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>

// Called by UCX's module loader, or by ours, once the plug-in is loaded. Ours
// calls it again whenever UCX may have loaded more libraries, also from several
// threads at once.
extern "C" __attribute__((visibility("default"))) ucx_ib_dmabuf::ucs_status_t
ucs_module_global_init() noexcept
{
    using namespace ucx_ib_dmabuf;

    // A process uses the GPUs of one vendor. A second vendor would be asked
    // here if CUDA finds no GPU.
    constexpr vendor_finder find_vendor = find_cuda;
    serve_new_instances(
        {[](ucx_instance &instance) {
             instance.set_has_cuda(has_cuda_module(instance.uct_ib()));
             return process_state::enable(instance.parser(), find_vendor);
         },
         override_md, do_gpu_atomic, get_gpu_memh, offer_cuda_copy});
    return UCS_OK;
}

// An alias. A wheel has a library instead of a symbolic link, which has to
// define ucs_module_global_init itself, and calls this
// (packaging/wheel/link.c).
extern "C"
    __attribute__((visibility("default"), alias("ucs_module_global_init")))
    ucx_ib_dmabuf::ucs_status_t
    ucx_ib_dmabuf_start() noexcept;
