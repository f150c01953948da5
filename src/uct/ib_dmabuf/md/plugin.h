// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../cache/cache.h"
#include "../gpu.h"
#include "../metrics/live_reader.h"
#include "../metrics/metric.h"
#include "../prove/proofs.h"
#include "../report.h"
#include "open_nics.h"
#include "settings.h"
#include "trial.h"
#include <array>
#include <atomic>
#include <cstring>
#include <memory>

namespace ucx_ib_dmabuf {

// Says once that the plug-in is without memory where it needs some to begin.
void warn_no_memory() noexcept;

// Why some releases of GPU memory go unseen, if they do: the first reason, of
// any thread, for good. Takes no memory.
class hooks_gap {
public:
    void note(const char *why) noexcept
    {
        int found = none;
        if (state_.compare_exchange_strong(found, being_noted)) {
            memccpy(why_.data(), why, '\0', why_.size() - 1);
            state_ = noted;
        }
    }
    bool is_there() const { return state_ != none; }
    // Null: there is none, or it is not noted yet.
    const char *why() const
    {
        return (state_ == noted) ? why_.data() : nullptr;
    }

private:
    enum : int { none, being_noted, noted };

    std::atomic<int> state_{none};
    std::array<char, 256> why_{};
};

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

    void count_atomic();

    // What this process has counted. Needs no memory.
    metrics counters() const noexcept;

private:
    explicit plugin(std::unique_ptr<gpu_vendor> gpu);
    void count_anew() noexcept; // in the child of a fork
    void on_change(uintptr_t address, size_t length) noexcept override;
    void on_release(uintptr_t address, size_t length) noexcept override;
    void on_events_missed(const char *why) noexcept override;
    bool on_out_of_memory() noexcept override { return cache_.flush(); }

    const std::unique_ptr<gpu_vendor> gpu_;
    cache cache_;
    open_nics nics_;
    trials trials_{ask_others_for_room};
    proofs proofs_;
    std::atomic<uint64_t> atomics_{0};
    hooks_gap hooks_gap_;
};

} // namespace ucx_ib_dmabuf
