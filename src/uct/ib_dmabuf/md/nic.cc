// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"
#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <uct/ib_dmabuf/gpu/dmabuf_exports.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

namespace {

// Uses uct_ib, with all access flags, as others share the registration.
class uct_ib_registration final : public dmabuf_registration {
public:
    uct_ib_registration(const saved_md_ops &domain, ucs_memory_type_t type)
        : domain_(domain), type_(type)
    {
    }
    void *reg(int fd, size_t offset, uintptr_t address, size_t length) override
    {
        const uct_md_mem_reg_params_t params{
            .field_mask = UCT_MD_MEM_REG_FIELD_FLAGS |
                          UCT_MD_MEM_REG_FIELD_DMABUF_FD |
                          UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET |
                          UCT_MD_MEM_REG_FIELD_MEM_TYPE,
            .flags = UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_ACCESS_REMOTE_ATOMIC |
                     UCT_MD_MEM_FLAG_HIDE_ERRORS,
            .dmabuf_fd     = fd,
            .dmabuf_offset = offset,
            .mem_type      = type_};
        uct_mem_h made = nullptr;

        if (domain_.reg({reinterpret_cast<void *>(address), length, &params},
                        &made) == UCS_OK) {
            return made;
        }
        errno = (errno == 0) ? EINVAL : errno; // if no verb was called
        return nullptr;
    }
    void dereg(void *handle) override { domain_.dereg(handle); }

private:
    const saved_md_ops &domain_;
    const ucs_memory_type_t type_;
};

// The ladder's steps are the first values of the label "path".
static_assert(static_cast<size_t>(ladder_step::pcie) + 1 == ladder_steps);

} // namespace

nic::nic(const saved_md_ops &uct_ib, gpu_vendor &gpu, proofs *proven)
    : uct_ib_(uct_ib), gpu_(gpu), proven_(proven),
      ladder_(uct_ib.pd(), uct_ib.tries_data_direct(),
              (proven != nullptr) ? this : nullptr)
{
}

ucs_status_t nic::reg(dmabuf_source &memory, int gpu, uintptr_t address,
                      size_t length, void **handle)
{
    pair_row &pair = process_counters.of(name(), gpu);
    uct_ib_registration by(uct_ib_, gpu_.memory_type());
    std::unique_ptr<registration> made(new (std::nothrow) registration{});
    // A lack of host memory is not reported as NO_MEMORY, which means the GPU
    // or the NIC.
    const ucs_status_t status =
        (made == nullptr) ? UCS_ERR_BUSY
                          : ladder_.reg(memory, gpu, address, length, by,
                                        &made->original, &made->step);
    if (status != UCS_OK) {
        pair.add("failures");
        return status;
    }
    made->lkey   = handle_keys::of(made->original)->lkey();
    made->rkey   = handle_keys::of(made->original)->rkey();
    made->pair   = &pair;
    made->length = length;
    pair.add_region(static_cast<size_t>(made->step), length);
    *handle = made.release();
    return UCS_OK;
}

void nic::dereg(void *handle)
{
    const std::unique_ptr<registration> ended(
        static_cast<registration *>(handle));
    {
        // Waits for a thread that packs a key after checking for revocation.
        const std::lock_guard<std::mutex> wait(packing_);
    }
    uct_ib_.dereg(ended->original);
    ended->pair->end_region(ended->length);
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
    void *result = nullptr;
    allocation found;

    if (gpu_.describe(handle.address, &found) != UCS_OK) {
        return nullptr;
    }
    dmabuf_exports memory(gpu_, low, high - low,
                          gpu_.before(low, found.in_chunks));
    const auto attempt = [&] {
        return reg(memory, found.device, low, high - low, &result);
    };
    ucs_status_t status = attempt();
    for (auto make_room :
         {&rcache::evict_all_idle, &rcache::ask_others_for_room}) {
        if (lacks_room(status) && (all.*make_room)()) {
            status = attempt();
        }
    }
    if (status != UCS_OK) {
        return nullptr;
    }
    auto *own    = static_cast<registration *>(result);
    own->process = getpid();
    return own;
}

} // namespace ucx_ib_dmabuf
