// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_NIC_H_
#define UCX_IB_DMABUF_MD_NIC_H_

#include "../gpu.h"
#include "../host/domain.h"
#include "../metrics/pairs.h"
#include "../prove/proofs.h"
#include "../verbs/ladder.h"
#include "memh.h"
#include "staging_pool.h"
#include <bit>
#include <mutex>
#include <sys/types.h>
#include <unordered_map>
#include <utility>

namespace ucx_ib_dmabuf {

class loopback;

// A dma-buf that is registered: by us, or, where that is to be used, by uct_ib.
struct registration {
    ibv_mr *mr;
    uct_mem_h original;
    uint32_t lkey, rkey;
    pid_t process;               // that made it
    ladder_step step;            // that took it
    pair_row *pair;              // where it is counted
    size_t length;               // in bytes
    memh *invalidated = nullptr; // to tell at its end. Under the NICs' lock
};

// Registers dma-bufs in the protection domain of one of uct_ib's memory
// domains, for handles of its layout.
class nic final : public registrar, path_judge {
public:
    // `by_uct_ib`: what registers in our place; null: nobody. `proven`: where
    // it is known which GPU's memory the device reaches; null: that is trusted.
    nic(const protection_domain &pd, const keys_layout &layout,
        bool relaxed_order, gpu_vendor &gpu,
        const original_domain *by_uct_ib = nullptr, proofs *proven = nullptr);

    // Whether memory of any GPU is known not to be carried.
    bool has_refuted() const;
    // proofs::changes() of the device.
    uint64_t changes() const;

    // The device's, for messages.
    const char *name() const { return pd_.device_name(); }

    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, void **handle) override;
    void dereg(void *handle) override;
    void count_end(int gpu, ending why) noexcept override;
    bool users_keep() const override
    {
        return by_uct_ib_ != nullptr && by_uct_ib_->keeps_handles();
    }
    void let_go(uintptr_t address, size_t length) override
    {
        by_uct_ib_->let_go(address, length);
    }

    // A handle for one user of the cache's region, to be destroyed; null
    // without memory.
    memh *hand_out(const region *used, uintptr_t address, size_t length);
    // The same where memh::has_idle(): there is memory.
    memh *hand_out_idle(const region *used, uintptr_t address, size_t length);

    // A registration of no more than the pages that the handle is for, which
    // only it uses: to be ended by dereg_alone(). Null if that fails; logged.
    registration *reg_alone(const memh &handle);
    void dereg_alone(registration *own);

    // Held while uct_ib packs a key of a registration: it makes some keys only
    // then, locking nothing, and the registration is not to end meanwhile.
    std::mutex &packing() { return packing_; }
    // The registration behind the handle's region, which is not revoked.
    registration *behind(const memh &handle)
    {
        return find(handle.used->handle);
    }

    // A handle for one operation on a host copy; null if that fails.
    memh *stage(uintptr_t address, size_t length);
    // The operation is over. Destroys the handle.
    void unstage(memh *handle);

    // `completion` is told when the keys of the handle's region have become
    // invalid; the handle is destroyed then.
    void notify_invalidated(memh *handle, uct_completion_t *completion);

private:
    // What the cache's handle is, so that a hit finds the keys with the region:
    // one more thing to fetch from memory would cost a third of it where there
    // are many regions.
    struct keys {
        uint32_t lkey, rkey;
    };

    memh *make_handle(void *memory, const region *used, uintptr_t address,
                      size_t length);
    ucs_status_t reg_by_us(dmabuf_source &memory, int gpu, uintptr_t address,
                           size_t length, registration *made);
    ucs_status_t reg_by_uct_ib(dmabuf_source &memory, int gpu,
                               uintptr_t address, size_t length,
                               registration *made);
    proofs::path path_of(ladder_step step, int gpu) const;
    bool is_refuted(ladder_step step, int gpu) noexcept override;
    finding judge(ladder_step step, int gpu,
                  dmabuf_registration &by) noexcept override;
    verdict prove_path(ladder_step step, int gpu, dmabuf_registration &by);
    void end(const registration &ended);
    registration *find(void *handle);

    const protection_domain pd_;
    const keys_layout layout_;
    const int access_;
    const original_domain *const by_uct_ib_;
    gpu_vendor &gpu_;
    proofs *const proven_;
    ladder ladder_;
    staging_pool copies_;
    std::mutex packing_;
    inline static std::mutex mutex_; // of all NICs, for forks
    std::unordered_map<uint32_t, registration> registrations_; // by lkey
};

// Here, as calls cost a good part of a hit.
inline memh *nic::make_handle(void *memory, const region *used,
                              uintptr_t address, size_t length)
{
    const auto both = std::bit_cast<keys>(used->handle);
    memh *created   = ::new (memory) memh(layout_, both.lkey, both.rkey);

    created->address = address;
    created->length  = length;
    created->used    = used;
    return created;
}

inline memh *nic::hand_out(const region *used, uintptr_t address, size_t length)
{
    void *memory = memh::operator new(sizeof(memh), std::nothrow);
    return (memory == nullptr) ? nullptr
                               : make_handle(memory, used, address, length);
}

inline memh *nic::hand_out_idle(const region *used, uintptr_t address,
                                size_t length)
{
    return make_handle(memh::take_idle(), used, address, length);
}

} // namespace ucx_ib_dmabuf

#endif
