// SPDX-License-Identifier: BSD-3-Clause
#include "md_registrar.h"
#include <cerrno>
#include <uct/ib_dmabuf/path/path_check.h>

namespace ucx_ib_dmabuf {

void *uct_ib_importer::reg(int fd, size_t offset, uintptr_t address,
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

static reg_methods::path_checker make_checker(const protection_domain &pd,
                                              gpu_vendor &gpus, importer &by)
{
    return [&](int gpu, reg_method method, const registered_buffer *probe) {
        return check_path(pd, gpus, gpu, method, by, probe);
    };
}

md_registrar::md_registrar(const saved_md_ops &uct_ib, gpu_vendor &gpus,
                           path_table &paths, bool checks)
    : uct_ib_(uct_ib), importer_(uct_ib, gpus.memory_type()),
      methods_(uct_ib.pd(), uct_ib.tries_data_direct(), importer_, paths,
               checks ? make_checker(uct_ib.pd(), gpus, importer_) : nullptr)
{
}

void md_registrar::dereg(void *handle)
{
    {
        // Waits for a thread that packs a key after checking for revocation.
        const std::lock_guard<std::mutex> wait(packing_);
    }
    methods_.dereg(static_cast<registration *>(handle));
}

void md_registrar::count_end(int gpu, ending why) noexcept
{
    process_counters.of(name(), gpu)
        .add((why == ending::evicted) ? pair_metric("evictions")
                                      : pair_metric("invalidations"));
}

} // namespace ucx_ib_dmabuf
