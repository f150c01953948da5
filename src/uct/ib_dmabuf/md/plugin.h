// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../cache/cache.h"
#include "../gpu.h"
#include "../metrics/live.h"
#include "../prove/proofs.h"
#include "../report.h"
#include "open_nics.h"
#include "settings.h"
#include "trial.h"
#include <memory>

namespace ucx_ib_dmabuf {

// Says once that the plug-in is without memory where it needs some to begin.
void warn_no_memory() noexcept;

// What all memory domains of the process share. Made by the first of them that
// opens where there is a GPU, and never destroyed: other threads and libraries
// may use UCX while the process exits.
class plugin final : gpu_vendor::listener {
public:
    // To be called for each copy of UCX; the first one's parser reads the
    // settings, once for the process. False: switched off, or a setting is
    // wrong (logged once). Thread-safe.
    static bool enable(config_parser &parser, find_gpus find) noexcept;

    // Null if there is nothing to do: no GPUs are found, or no memory of the
    // host (reported once). Thread-safe.
    static plugin *get() noexcept;
    // The same, if get() was called before.
    static plugin *existing() noexcept;

    gpu_vendor &gpu() const { return *gpu_; }
    // Not with a limit of nothing.
    static bool may_register() noexcept;
    cache &registrations() { return cache_; }
    trials &nic_trials() { return trials_; }
    open_nics &nics() { return nics_; }
    // Null if paths are trusted.
    proofs *proven_paths();
    // An operation of the device's has failed: what it reaches is proven anew,
    // and nothing that any context has registered with it is used again.
    void doubt(const char *device) noexcept;

private:
    explicit plugin(std::unique_ptr<gpu_vendor> gpu);
    void on_change(uintptr_t address, size_t length) noexcept override;
    void on_release(uintptr_t address, size_t length) noexcept override;
    void on_events_missed(const char *why) noexcept override;
    bool on_out_of_memory() noexcept override { return cache_.flush(); }

    const std::unique_ptr<gpu_vendor> gpu_;
    cache cache_;
    open_nics nics_;
    trials trials_{ask_others_for_room};
    proofs proofs_;
};

} // namespace ucx_ib_dmabuf
