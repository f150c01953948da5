// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../cache/cache.h"
#include "../gpu.h"
#include "../host/domain.h"
#include "../metrics/metrics.h"
#include "../prove/proofs.h"
#include "../verbs/ladder.h"
#include <atomic>
#include <mutex>
#include <sys/types.h>

namespace ucx_ib_dmabuf {

class loopback;

// A dma-buf that uct_ib has registered: what the cache's handle points to.
struct registration {
    uct_mem_h original;
    uint32_t lkey, rkey;
    ladder_step step; // that took it
    pair_row *pair;   // where it is counted
    size_t length;    // in bytes
    pid_t process;    // of reg_alone(); else 0
};

// What UCX gets as a memory handle: what uct_ib's transports read the keys
// from, and ours behind it. What providers have there is read by operations
// only that never see our handles. One for each mem_reg, as each may be
// invalidated by itself.
class memh : public handle_keys {
public:
    using handle_keys::handle_keys;

    uct_mem_h to_uct() { return static_cast<handle_keys *>(this); }

    // What was asked for, and the cache's region around it.
    uintptr_t address  = 0;
    size_t length      = 0;
    const region *used = nullptr;

    // Of that range alone, once a remote key was packed that may be
    // invalidated while others use the region.
    std::atomic<registration *> own{nullptr};
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
    void let_go(uintptr_t address, size_t length) override
    {
        uct_ib_.let_go(address, length);
    }

    // A registration of no more than the pages that the handle is for, which
    // only it uses, until dereg(). Evicts what is idle. Null: failed, logged.
    registration *reg_alone(const memh &handle, cache &all);

    // Held while a registration is looked at that may be revoked: it does not
    // end meanwhile. uct_ib makes some keys only as it packs them, locking
    // nothing.
    std::mutex &packing() { return packing_; }
    // The registration behind the handle's region, which is not revoked.
    static registration *behind(const region &used)
    {
        return static_cast<registration *>(used.handle);
    }

private:
    proofs::path path_of(ladder_step step, int gpu) const;
    bool is_refuted(ladder_step step, int gpu) noexcept override;
    finding judge(ladder_step step, int gpu,
                  dmabuf_registration &by) noexcept override;
    verdict prove_path(ladder_step step, int gpu, dmabuf_registration &by);

    const original_domain &uct_ib_;
    gpu_vendor &gpu_;
    proofs *const proven_;
    ladder ladder_;
    std::mutex packing_;
};

} // namespace ucx_ib_dmabuf
