// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <mutex>
#include <sys/types.h>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <uct/ib_dmabuf/path/path_states.h>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <uct/ib_dmabuf/rcache/rcache.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/md_override.h>

namespace ucx_ib_dmabuf {

class loopback;

// A dma-buf that uct_ib has registered. The cache's handle points to it.
struct registration {
    uct_mem_h original;
    uint32_t lkey, rkey;
    ladder_step step; // that registered it
    pair_row *pair;   // its counters
    size_t length;    // in bytes
    pid_t process;    // set by reg_alone(), else 0
};

// The memory handle for UCX. uct_ib's transports read the keys at its start;
// our data follows. Only operations that never get our handles read uct_ib's
// data in that place. Each mem_reg gets its own, as UCX may invalidate each one
// separately.
class memh : public handle_keys {
public:
    using handle_keys::handle_keys;

    uct_mem_h to_uct() { return static_cast<handle_keys *>(this); }

    // The requested range, and the cache's region around it.
    uintptr_t address  = 0;
    size_t length      = 0;
    const region *used = nullptr;

    // A registration of this range alone. Set once a remote key was packed that
    // may be invalidated while others use the region.
    std::atomic<registration *> own{nullptr};
};

// Registers dma-bufs in a memory domain of uct_ib, by its own mem_reg.
class nic final : public registrar, path_judge {
public:
    // `proven` records which GPU's memory the device reaches. If it is null,
    // every path is trusted.
    nic(const saved_md_ops &uct_ib, gpu_vendor &gpu, proofs *proven = nullptr);

    // Whether a path to any GPU's memory is refuted.
    bool has_refuted() const;
    // proofs::changes() of the device.
    uint64_t changes() const;

    // The device's name, for messages.
    const char *name() const { return uct_ib_.name(); }

    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t address,
                     size_t length, void **handle) override;
    void dereg(void *handle) override;
    void count_end(int gpu, ending why) noexcept override;
    void drop_from_ucp_cache(uintptr_t address, size_t length) override
    {
        uct_ib_.drop_from_ucp_cache(address, length);
    }

    // Registers only the pages of the handle's range, for that handle alone,
    // until dereg(). Evicts idle regions. Returns nullptr on failure (logged).
    registration *reg_alone(const memh &handle, rcache &all);

    // Held while a thread uses a registration that may be revoked: dereg()
    // waits. uct_ib creates some keys only when it packs them, without a lock.
    std::mutex &packing() { return packing_; }
    // The registration behind the region, which must not be revoked.
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

    const saved_md_ops &uct_ib_;
    gpu_vendor &gpu_;
    proofs *const proven_;
    ladder ladder_;
    std::mutex packing_;
};

} // namespace ucx_ib_dmabuf
