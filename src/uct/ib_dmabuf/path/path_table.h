// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
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
// mapping comes first over Data Direct, which does not reach the standard
// mapping of a coherent GPU. Otherwise it is the fallback. The next ones are
// peer memory, by uct_ib, and staging, by UCP.
using reg_method = mapping_type;

enum class path_state : uint8_t {
    untested, // could not be checked; it is used
    proven,   // every byte arrived in its place, and no other byte changed
    broken,   // a byte did not
    // To be checked. After a check: operations of the NIC failed again and
    // again meanwhile.
    unchecked,
};

struct check_result {
    path_state state;
    text why; // empty for `proven`
    // The NIC does not reach itself: all its paths are untested.
    bool for_the_nic = false;
};

// The path between a NIC and a GPU's memory that a method registered.
struct path {
    std::atomic<path_state> state{path_state::unchecked};
    // The rest belongs to nic_paths.
    uint8_t attempts = 0;
    pid_t checker    = 0; // process that checks it, or 0
};

struct first_method {
    static constexpr uint8_t works = UINT8_MAX;

    reg_method method;
    uint8_t failures; // of the method in a row; `works`: it has worked

    bool has_worked() const { return failures == works; }
    bool operator==(const first_method &) const = default;
};

struct nic_gpu_pair {
    std::atomic<first_method> first;
    std::array<path, 2> paths; // by method

    path &of(reg_method method) { return paths[static_cast<size_t>(method)]; }
};

// The paths of a NIC, which domains of one device share. Thread-safe; holds no
// lock over a call, and allocates nothing.
class nic_paths {
public:
    using call_with_name = std::function<void(const char *nic)>;

    nic_paths(std::string name, const call_with_name &when_broken);

    const char *name() const { return name_.c_str(); }
    // Instances of UCX that use the NIC with and without Data Direct, and so
    // prefer different methods, have different paths.
    nic_gpu_pair &pair(int gpu, reg_method preferred)
    {
        return pairs_[static_cast<size_t>(preferred)][gpu_index(gpu)];
    }

    // Returns the known state, or runs the check and reports its result. Only
    // threads that need the same path wait, at most ten seconds: then the path
    // is untested to them. `gpu` and `method` are for messages.
    path_state check(path *which, int gpu, reg_method method,
                     const std::function<check_result()> &run);
    // Whether any path is broken, also one of another UCX instance.
    bool has_broken() const { return broken_; }

private:
    friend class path_table;

    // A failed check may succeed later, as a GPU comes into use. Limits the
    // attempts after each recheck, and the rounds of a check().
    static constexpr int max_attempts = 3;

    std::optional<path_state> known_or_begin(path *which);
    bool commit(path *which, uint64_t rechecks_before, bool last,
                check_result *result);
    void report(int gpu, reg_method method, const check_result &result,
                uint64_t nanoseconds) const;
    void recheck() noexcept; // with the lock held

    // The lock of the table, too. Static for at_fork().
    inline static std::mutex mutex_;
    const std::string name_;
    const call_with_name &when_broken_;
    // By the preferred method and the GPU.
    std::array<std::array<nic_gpu_pair, max_gpus>, 2> pairs_;
    std::atomic<bool> broken_{false};
    std::atomic<uint64_t> rechecks_{0};
    bool unreachable_ = false; // the NIC does not reach itself
    int unreached_    = 0;     // how often that was found
};

// The NICs of this process. Thread-safe.
class path_table {
public:
    // `when_broken` is called, without a lock, when a path is found broken: it
    // may be in use, if it could not be checked before.
    explicit path_table(nic_paths::call_with_name when_broken = {});

    // Returns the NIC's record, which lives as long as the table. May throw
    // std::bad_alloc.
    nic_paths &of(const char *nic);
    // After an error of the NIC its paths are checked again. Broken paths stay
    // broken.
    void recheck(const char *nic) noexcept;

private:
    const nic_paths::call_with_name when_broken_;
    std::map<std::string, nic_paths, std::less<>> nics_;
};

} // namespace ucx_ib_dmabuf
