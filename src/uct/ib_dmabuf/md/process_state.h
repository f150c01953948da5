// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "settings.h"
#include <atomic>
#include <memory>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <uct/ib_dmabuf/path/path_table.h>
#include <uct/ib_dmabuf/rcache/rcache.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <uct/ib_dmabuf/ucx/ucp.h>

namespace ucx_ib_dmabuf {

// Warns once that the plug-in lacks host memory to start.
void warn_no_memory() noexcept;

// The state that all memory domains of the process share. Created when the
// first domain opens while there is a GPU. Never destroyed: other threads and
// libraries may use UCX while the process exits.
class process_state final : gpu_vendor::listener {
public:
    // Called for each UCX instance; the first one's parser reads the settings,
    // once for the process. Returns false if the plug-in is switched off, or a
    // setting is invalid (logged once). Thread-safe.
    static bool enable(config_parser &parser, vendor_finder find) noexcept;

    // Returns nullptr if no GPU is found, in a child that forked during the
    // start, or without host memory (reported once). Thread-safe.
    static process_state *get() noexcept;
    // The same, or nullptr if get() has not created it.
    static process_state *existing() noexcept;

    // Called when GPU memory is registered: from then on a thread gives other
    // processes room that they ask for. Thread-safe.
    static void give_room() noexcept
    {
        if (!gives_room_.load(std::memory_order_relaxed)) {
            start_giving_room();
        }
    }

    gpu_vendor &gpu() const { return *gpu_; }
    // False if a limit is zero.
    static bool may_register() noexcept;
    rcache &registrations() { return cache_; }
    path_table &paths() { return paths_; }
    // False if every path is trusted.
    static bool checks_paths() noexcept;
    // Called after an operation of the NIC has failed. Its paths are checked
    // again, and no context uses an earlier registration with it again.
    void recheck(const char *nic) noexcept;

private:
    explicit process_state(std::unique_ptr<gpu_vendor> gpu);
    void on_change(uintptr_t address, size_t length) noexcept override;
    void on_release(uintptr_t address, size_t length) noexcept override;
    void on_allocation(uintptr_t address, size_t length) noexcept override;
    void on_context_end() noexcept override { cache_.leave_driver(); }
    void on_events_missed(const char *why) noexcept override;
    bool on_out_of_memory() noexcept override { return cache_.flush(); }
    static void start_giving_room() noexcept;
    // In a forked child, which has none of its parent's registrations.
    static void forget_parent() noexcept;

    const std::unique_ptr<gpu_vendor> gpu_;
    rcache cache_;
    path_table paths_;
    static inline std::atomic<bool> gives_room_{false};
};

// In atomics.cc:
// Performs an atomic operation of a UCP message on GPU memory by copies, as the
// CPU cannot access the memory. Operations are atomic to each other in all
// threads of the process, but not to kernels and NICs. Returns false if it is
// no GPU memory, or a copy failed (logged). Thread-safe; called with no lock
// held.
bool do_gpu_atomic(const atomic_request &request, uint64_t *before) noexcept;

} // namespace ucx_ib_dmabuf
