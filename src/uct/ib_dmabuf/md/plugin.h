// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_PLUGIN_H_
#define UCX_IB_DMABUF_MD_PLUGIN_H_

#include "../cache/cache.h"
#include "../report.h"
#include "cuda_exporter.h"
#include "settings.h"
#include <atomic>

namespace ucx_ib_dmabuf {

// Says once that the plug-in is without memory where it needs some to begin.
void warn_no_memory() noexcept;

// What all memory domains of the process share. Made by the first of them that
// opens where there is a GPU, and never destroyed: other threads and libraries
// may use UCX while the process exits.
class plugin {
public:
    // Reads the settings. False: switched off, or a setting is wrong (logged).
    static bool enable() noexcept;

    // Null if there is nothing to do: no libcuda, no GPU, or none that can
    // export its memory, or no memory of the host (reported once).
    // Thread-safe.
    static plugin *get() noexcept;

    const driver &cuda() const { return cuda_; }
    exporter &memory() { return exporter_; }
    cache &registrations() { return cache_; }

    // False only if the range is surely not device memory. Some 30 ns.
    bool may_be_device(const void *address, size_t length) const;

    void count_staged(size_t bytes);

    // One line of JSON.
    text counters() const noexcept;

private:
    plugin(const driver &cuda, const settings &config);
    void watch_events() noexcept;
    void on_events_missed(const char *why) noexcept;

    const driver &cuda_;
    cuda_exporter exporter_;
    cache cache_;
    std::atomic<bool> events_complete_{false};
    std::atomic<uint64_t> staged_operations_{0};
    std::atomic<uint64_t> staged_bytes_{0};
};

} // namespace ucx_ib_dmabuf

#endif
