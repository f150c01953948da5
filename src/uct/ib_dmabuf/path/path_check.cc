// SPDX-License-Identifier: BSD-3-Clause
#include "path_check.h"
#include <memory>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <utility>

namespace ucx_ib_dmabuf {

static check_result untested(const char *why)
{
    return {path_state::untested, why};
}

// An error ends a connection, so each round has its own. Repeats the check once
// after a timeout: the machine may have been busy. A failed transfer is a fault
// of the path only if host memory in the GPU's place works.
check_result check_buffers(const protection_domain &pd, gpu_vendor &gpus,
                           const registered_buffer &gpu,
                           const registered_buffer &host, connection to)
{
    check_result found;

    for (bool again = false;; again = true) {
        if (!to.nic) {
            to = loopback::to_itself(pd);
        }
        if (!to.nic) {
            return untested(to.problem);
        }
        found = check_gpu(*to.nic, gpus, gpu, host);
        if (found.state != path_state::broken) {
            return found;
        }
        const bool is_last = !to.nic->is_silent() || again;
        to                 = {};
        if (is_last) {
            break;
        }
    }
    to = loopback::to_itself(pd);
    if (!to.nic) {
        return untested(to.problem);
    }
    const std::optional<text> wrong = check_host(*to.nic, gpus, host);
    if (!wrong) {
        return found;
    }
    return {path_state::untested,
            format("it does not reach itself with host memory in the place of "
                   "the GPU's (%s)",
                   wrong->c_str()),
            true};
}

check_result check_path(const protection_domain &pd, gpu_vendor &gpus, int gpu,
                        reg_method method, dmabuf_registrar &by,
                        const registered_buffer *probe)
{
    connection first = loopback::to_itself(pd);
    if (!first.nic) {
        return untested(first.problem); // before it costs GPU memory
    }
    const host_pages host(pd, check_host_size);
    if (!host.registered()) {
        return untested("host memory cannot be registered");
    }
    if (probe != nullptr) {
        return check_buffers(pd, gpus, *probe, host.at(), std::move(first));
    }
    const auto buffer = gpus.allocate_probe_buffer(gpu);
    if (!buffer || (buffer->length < check_size)) {
        return untested("the GPU has no memory to try");
    }
    // Only a part of the buffer, which has 2 MiB or more: a NIC maps each page.
    const size_t mask   = gpus.granularity() - 1;
    const size_t length = (check_size + mask) & ~mask;
    dmabuf_exports memory(gpus, buffer->address, length);
    int fd       = -1;
    void *handle = (memory.get(method, &fd) == UCS_OK)
                       ? by.reg(fd, memory.offset(), buffer->address, length)
                       : nullptr;
    if (handle == nullptr) {
        return untested("memory to try cannot be registered");
    }
    const auto end = [&](void *made) { by.dereg(made); };
    const std::unique_ptr<void, decltype(end)> ends(handle, end);
    return check_buffers(pd, gpus, by.buffer_of(handle, buffer->address),
                         host.at(), std::move(first));
}

} // namespace ucx_ib_dmabuf
