// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <uct/ib_dmabuf/fork_mutex.h>
#include <uct/ib_dmabuf/gpu/gpu_vendor.h>
#include <uct/ib_dmabuf/rcache/registrar.h>

namespace ucx_ib_dmabuf {

// Tests which NIC can register which GPU's memory, once for each pair. If a
// failed registration has no fallback, UCX has to know this before it chooses a
// protocol. Thread-safe.
class trials {
public:
    // `ask_others`: as in rcache_settings.
    explicit trials(bool (*ask_others)() = [] { return false; })
        : ask_others_(ask_others)
    {
        keep_from_forks<mutex_>();
    }

    // Returns false if the NIC cannot register the memory of any GPU that can
    // be tried (logged). A GPU that is not in use cannot be tried; returns true
    // if none can. A result is valid while `changes` stays the same.
    bool takes_memory(gpu_vendor &gpus, registrar &nic, const char *name,
                      uint64_t changes);

private:
    std::optional<bool> ask(gpu_vendor &gpus, registrar &nic, const char *name,
                            int gpu, uint64_t changes);

    bool (*const ask_others_)();
    inline static std::mutex mutex_; // static for keep_from_forks()
    struct result {
        bool works;
        uint64_t changes; // before the trial
    };
    std::map<std::pair<std::string, int>, result> known_;
};

} // namespace ucx_ib_dmabuf
