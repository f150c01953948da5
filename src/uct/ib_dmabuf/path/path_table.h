// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>
#include <uct/ib_dmabuf/gpu/exporter.h>
#include <uct/ib_dmabuf/report.h>

namespace ucx_ib_dmabuf {

// A NIC registers a GPU's memory by one of the mappings of a dma-buf. The PCIe
// mapping comes first if uct_ib registers over Data Direct, which does not
// reach the standard mapping of a coherent GPU. Otherwise it is the fallback if
// the standard mapping is ENOTSUPP or its path is broken. The next fallbacks
// are peer memory, by uct_ib, and staging, by UCP.
using reg_method = mapping_type;

// The path between a NIC and a GPU's memory, registered by a method.
enum class path_state : uint8_t {
    untested, // could not be checked; it is used
    proven,   // every byte arrived in its place, and no other byte changed
    broken,   // a byte did not
    recheck,  // operations of the NIC fail again and again during the check
};

struct check_result {
    path_state state;
    text why; // empty for `proven`
    // The NIC does not reach itself: all its paths are untested.
    bool for_the_nic = false;
};

// The method that is tried first for a pair of a NIC and a GPU.
struct first_method {
    static constexpr uint8_t works = UINT8_MAX;

    reg_method method;
    uint8_t failures; // of the method in a row; `works`: it has worked

    bool has_worked() const { return failures == works; }
    bool operator==(const first_method &) const = default;
};

// All that this process knows about a NIC with each GPU. Domains of one device
// share it. Thread-safe; holds no lock over a call, and allocates nothing.
class nic_paths {
public:
    using call_with_name = std::function<void(const char *nic)>;

    nic_paths(std::string name, reg_method preferred,
              std::chrono::milliseconds patience, const call_with_name &broken);

    const char *name() const { return name_.c_str(); }
    reg_method preferred() const { return preferred_; }

    first_method first(int gpu) const;
    // Stores the method, unless another thread has stored one since `before`.
    void set_first(int gpu, first_method before, first_method after);

    // Returns the known state, or runs the check and reports its result. Only
    // threads that need the same path wait; after `patience` the path is
    // untested to them.
    path_state check(int gpu, reg_method method,
                     const std::function<check_result()> &run);
    bool is_broken(int gpu, reg_method method) const;
    // Whether any path of the NIC is broken.
    bool has_broken() const;

    // Whether a probe of the GPU's memory was registered. Empty if there was no
    // probe since the last change of a path.
    std::optional<bool> probed(int gpu) const;
    // Counts the changes of paths: pass the count before the probe.
    uint64_t changes() const;
    void set_probed(int gpu, bool works, uint64_t changes_before);

private:
    friend class path_table;

    // A failed check may succeed later: the GPU comes into use, a port becomes
    // active. Limits the attempts after each recheck, and the rounds of a
    // check() with rechecks meanwhile.
    static constexpr int max_attempts = 3;

    struct path {
        path_state state = path_state::untested;
        uint8_t attempts = 0;
        pid_t checker    = 0; // process that checks it, or 0
    };
    struct pair {
        first_method first;
        std::array<path, 2> paths; // by method
        std::optional<bool> probed;
        uint64_t probed_at = 0; // changes() before the probe
    };

    path &path_of(int gpu, reg_method method)
    {
        return pairs_[gpu_index(gpu)].paths[static_cast<size_t>(method)];
    }
    std::optional<path_state> known_or_begin(path *which,
                                             uint64_t *rechecks_before);
    bool commit(path *which, check_result *result, uint64_t *rechecks_before,
                bool last);
    void report(int gpu, reg_method method, const check_result &result,
                uint64_t nanoseconds) const;
    void recheck() noexcept; // with the lock held

    // The lock of the table, too. Static for at_fork().
    inline static std::mutex mutex_;
    const std::string name_;
    const reg_method preferred_;
    const std::chrono::milliseconds patience_;
    const call_with_name &when_broken_;
    std::array<pair, max_gpus> pairs_;
    uint64_t rechecks_ = 0;
    uint64_t broken_   = 0;     // number of such paths
    bool unreachable_  = false; // the NIC does not reach itself
    int unreached_     = 0;     // how often that was found
};

// The NICs of this process. Thread-safe.
class path_table {
public:
    // `patience` limits the wait for another thread's check.
    explicit path_table(
        std::chrono::milliseconds patience = std::chrono::seconds(10));

    // Sets the function that is called, without a lock, when a path of the NIC
    // is found broken: it may be in use, if it could not be checked before.
    // Once, before any check.
    void call_when_broken(nic_paths::call_with_name call)
    {
        when_broken_ = std::move(call);
    }

    // Returns the NIC's record, which lives as long as the table. Instances of
    // UCX that use a NIC with and without Data Direct have one for each. May
    // throw std::bad_alloc.
    nic_paths &of(const char *nic, reg_method preferred);
    // Called after an operation of the NIC has failed, maybe because a path
    // broke: its paths are checked again. Broken paths stay broken.
    void recheck(const char *nic) noexcept;

private:
    const std::chrono::milliseconds patience_;
    nic_paths::call_with_name when_broken_;
    std::map<std::pair<std::string, reg_method>, nic_paths> nics_;
};

} // namespace ucx_ib_dmabuf
