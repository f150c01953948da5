// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"
#include <algorithm>
#include <cerrno>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/path/path_check.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

void *uct_ib_registrar::reg(int fd, size_t offset, uintptr_t address,
                            size_t length)
{
    const uct_md_mem_reg_params_t params{
        .field_mask =
            UCT_MD_MEM_REG_FIELD_FLAGS | UCT_MD_MEM_REG_FIELD_DMABUF_FD |
            UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET | UCT_MD_MEM_REG_FIELD_MEM_TYPE,
        .flags = UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_ACCESS_REMOTE_ATOMIC |
                 UCT_MD_MEM_FLAG_HIDE_ERRORS,
        .dmabuf_fd     = fd,
        .dmabuf_offset = offset,
        .mem_type      = type_};
    uct_mem_h made = nullptr;

    if (uct_ib_.reg({reinterpret_cast<void *>(address), length, &params},
                    &made) == UCS_OK) {
        return made;
    }
    errno = (errno == 0) ? EINVAL : errno; // if no verb was called
    return nullptr;
}

nic::nic(const saved_md_ops &uct_ib, gpu_vendor &gpu, path_table &paths,
         bool checks)
    : uct_ib_(uct_ib), gpu_(gpu), registrar_(uct_ib, gpu.memory_type()),
      methods_(uct_ib.pd(), uct_ib.tries_data_direct(), registrar_, paths,
               checks ? make_path_check() : nullptr)
{
}

reg_methods::path_check nic::make_path_check()
{
    return [this](int gpu, reg_method method, const registered_buffer *probe) {
        return check_path(uct_ib_.pd(), gpu_, gpu, method, registrar_, probe);
    };
}

ucs_status_t nic::reg(dmabuf_exports &memory, int gpu, uintptr_t address,
                      size_t length, void **handle)
{
    registration *made = nullptr;
    const ucs_status_t status =
        methods_.reg({memory, gpu, address, length}, &made);

    if (status == UCS_OK) {
        *handle = made;
    }
    return status;
}

void nic::dereg(void *handle)
{
    {
        // Waits for a thread that packs a key after checking for revocation.
        const std::lock_guard<std::mutex> wait(packing_);
    }
    methods_.dereg(static_cast<registration *>(handle));
}

void nic::count_end(int gpu, ending why) noexcept
{
    process_counters.of(name(), gpu)
        .add((why == ending::evicted) ? pair_metric("evictions")
                                      : pair_metric("invalidations"));
}

registration *nic::reg_alone(const memh &handle, rcache &all)
{
    const uintptr_t mask = gpu_.granularity() - 1;
    const region &around = *handle.used;
    const uintptr_t low  = std::max(handle.address & ~mask, around.address);
    const uintptr_t high =
        std::min((handle.address + handle.length + mask) & ~mask,
                 around.address + around.length);
    registration *own = nullptr;
    allocation found;

    if (gpu_.describe(handle.address, &found) != UCS_OK) {
        return nullptr;
    }
    dmabuf_exports memory(gpu_, low, high - low,
                          gpu_.before(low, found.in_chunks));
    const auto attempt = [&] {
        return methods_.reg({memory, found.device, low, high - low}, &own);
    };
    ucs_status_t status = attempt();
    for (auto make_room :
         {&rcache::evict_all_idle, &rcache::ask_others_for_room}) {
        if (lacks_room(status) && (all.*make_room)()) {
            status = attempt();
        }
    }
    if (status == UCS_OK) {
        own->process = getpid();
    }
    return own;
}

} // namespace ucx_ib_dmabuf
