// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_NIC_H_
#define UCX_IB_DMABUF_MD_NIC_H_

#include "../gpu.h"
#include "../host/domain.h"
#include "../metrics/pairs.h"
#include "../prove/proofs.h"
#include "../verbs/ladder.h"
#include "memh.h"
#include <bit>
#include <mutex>
#include <sys/types.h>
#include <unordered_map>
#include <utility>

namespace ucx_ib_dmabuf {

class loopback;

// A dma-buf that uct_ib has registered.
struct registration {
    uct_mem_h original;
    uint32_t lkey, rkey;
    pid_t process;    // of reg_alone(); else 0
    ladder_step step; // that took it
    pair_row *pair;   // where it is counted
    size_t length;    // in bytes
};

// Registers dma-bufs in one of uct_ib's memory domains, by its own mem_reg.
class nic final : public registrar, path_judge {
public:
    // `proven`: where it is known which GPU's memory the device reaches; null:
    // that is trusted.
    nic(const original_domain &uct_ib, gpu_vendor &gpu,
        proofs *proven = nullptr);

    // Whether memory of any GPU is known not to be carried.
    bool has_refuted() const;
    // proofs::changes() of the device.
    uint64_t changes() const;

    // The device's, for messages.
    const char *name() const { return uct_ib_.name(); }

    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, void **handle) override;
    void dereg(void *handle) override;
    void count_end(int gpu, ending why) noexcept override;
    bool users_keep() const override { return true; } // UCP does
    void let_go(uintptr_t address, size_t length) override
    {
        uct_ib_.let_go(address, length);
    }

    // A handle for one user of the cache's region, to be destroyed; null
    // without memory.
    memh *hand_out(const region *used, uintptr_t address, size_t length);

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

private:
    // What the cache's handle is, so that a hit finds the keys with the region:
    // one more thing to fetch from memory would cost a third of it where there
    // are many regions.
    struct keys {
        uint32_t lkey, rkey;
    };

    proofs::path path_of(ladder_step step, int gpu) const;
    bool is_refuted(ladder_step step, int gpu) noexcept override;
    finding judge(ladder_step step, int gpu,
                  dmabuf_registration &by) noexcept override;
    verdict prove_path(ladder_step step, int gpu, dmabuf_registration &by);
    registration *find(void *handle);

    const original_domain &uct_ib_;
    gpu_vendor &gpu_;
    proofs *const proven_;
    ladder ladder_;
    std::mutex packing_;
    inline static std::mutex mutex_; // of all NICs, for forks
    std::unordered_map<uint32_t, registration> registrations_; // by lkey
};

inline memh *nic::hand_out(const region *used, uintptr_t address, size_t length)
{
    const auto both = std::bit_cast<keys>(used->handle);
    memh *created   = new (std::nothrow) memh(both.lkey, both.rkey);

    if (created != nullptr) {
        created->address = address;
        created->length  = length;
        created->used    = used;
    }
    return created;
}

} // namespace ucx_ib_dmabuf

#endif
