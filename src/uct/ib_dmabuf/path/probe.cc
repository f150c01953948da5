// SPDX-License-Identifier: BSD-3-Clause
#include "probe.h"
#include "path_check.h"
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

ucs_status_t try_buffer(gpu_vendor &gpus, reg_methods &nic, int gpu,
                        const gpu_vendor::probe_buffer &what)
{
    return persist([&] {
        dmabuf_exports memory(gpus, what.address, what.length);
        registration *made        = nullptr;
        const ucs_status_t status = nic.reg(
            {memory, gpu, what.address, what.length, what.length >= check_size},
            &made);
        if (status == UCS_OK) {
            nic.dereg(made);
        }
        return status;
    });
}

// Whether the pair works; nullopt if that is not known and cannot be probed.
// Two threads may both probe the pair.
std::optional<bool> probe(gpu_vendor &gpus, reg_methods &nic, int gpu,
                          bool (*ask_others)())
{
    if (const std::optional<bool> known = nic.paths().probed(gpu)) {
        return known;
    }
    const uint64_t changes = nic.paths().changes();
    const auto buffer      = gpus.allocate_probe_buffer(gpu);
    if (!buffer) {
        return std::nullopt;
    }
    ucs_status_t status = try_buffer(gpus, nic, gpu, *buffer);
    if (lacks_room(status) && ask_others()) {
        status = try_buffer(gpus, nic, gpu, *buffer);
    }
    log_debug("ib_dmabuf: %s: a probe of GPU %d's memory: %s", nic.name(), gpu,
              ucs_status_string(status));
    if (status == UCS_ERR_BUSY) {
        return std::nullopt;
    }
    if (status != UCS_ERR_NO_MEMORY) { // there may be room later
        nic.paths().set_probed(gpu, status == UCS_OK, changes);
    }
    return status == UCS_OK;
}

} // namespace

bool registers_gpu_memory(gpu_vendor &gpus, reg_methods &nic,
                          bool (*ask_others)())
{
    int fails = -1;
    int works = -1;

    for (int gpu = 0; gpu < gpus.gpu_count(); ++gpu) {
        const std::optional<bool> answer = probe(gpus, nic, gpu, ask_others);
        if (answer) {
            (*answer ? works : fails) = gpu;
        }
    }
    if ((fails >= 0) && (works >= 0)) {
        warn_once(format("probe %s", nic.name()),
                  format("%s: GPU %d's memory can be registered, but not GPU "
                         "%d's: what sends that over this device fails, as "
                         "UCX cannot tell GPUs apart. Let each process see "
                         "only GPUs that work (CUDA_VISIBLE_DEVICES), or leave "
                         "the device out (UCX_NET_DEVICES)",
                         nic.name(), works, fails));
    }
    return (fails < 0) || (works >= 0);
}

} // namespace ucx_ib_dmabuf
