// SPDX-License-Identifier: BSD-3-Clause
#include "probe.h"
#include <uct/ib_dmabuf/gpu/dmabuf_exports.h>
#include <uct/ib_dmabuf/persist.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

// Registers in the way in which all GPU memory is registered.
ucs_status_t try_piece(gpu_vendor &gpus, registrar &nic, int gpu,
                       const gpu_vendor::probe_buffer &what)
{
    return persist([&] {
        dmabuf_exports memory(gpus, what.address, what.length);
        void *handle = nullptr;
        const ucs_status_t status =
            as_answer(nic.reg(memory, gpu, what.address, what.length, &handle));
        if (status == UCS_OK) {
            nic.dereg(handle);
        }
        return status;
    });
}

} // namespace

// Whether the pair works; nullopt if that is not known and cannot be tried.
// Holds no lock during the trial: two threads may both make it.
std::optional<bool> trials::ask(gpu_vendor &gpus, registrar &nic,
                                const char *name, int gpu, uint64_t changes)
{
    const auto pair = std::make_pair(std::string(name), gpu);
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        const auto found = known_.find(pair);
        if ((found != known_.end()) && (found->second.changes == changes)) {
            return found->second.works;
        }
    }
    const auto what = gpus.allocate_probe_buffer(gpu);
    if (!what) {
        return std::nullopt;
    }
    ucs_status_t status = try_piece(gpus, nic, gpu, *what);
    if (lacks_room(status) && ask_others_()) {
        status = try_piece(gpus, nic, gpu, *what);
    }
    log_debug("ib_dmabuf: %s: a trial with GPU %d's memory: %s", name, gpu,
              ucs_status_string(status));
    if (status == UCS_ERR_BUSY) {
        return std::nullopt;
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    if (status != UCS_ERR_NO_MEMORY) { // there may be room later
        known_[pair] = {status == UCS_OK, changes};
    }
    return status == UCS_OK;
}

bool trials::takes_memory(gpu_vendor &gpus, registrar &nic, const char *name,
                          uint64_t changes)
{
    int fails = -1;
    int works = -1;

    for (int gpu = 0; gpu < gpus.gpu_count(); ++gpu) {
        const std::optional<bool> answer = ask(gpus, nic, name, gpu, changes);
        if (answer) {
            (*answer ? works : fails) = gpu;
        }
    }
    if ((fails >= 0) && (works >= 0)) {
        warn_once(format("trial %s", name),
                  format("%s: GPU %d's memory can be registered, but not GPU "
                         "%d's: what sends that over this device fails, as "
                         "UCX cannot tell GPUs apart. Let each process see "
                         "only GPUs that work (CUDA_VISIBLE_DEVICES), or leave "
                         "the device out (UCX_NET_DEVICES)",
                         name, works, fails));
    }
    return (fails < 0) || (works >= 0);
}

} // namespace ucx_ib_dmabuf
