// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../fork_mutex.h"
#include "../gpu.h"
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace ucx_ib_dmabuf {

// Which NIC takes which GPU's memory, found out by registering a piece of it,
// once for each pair. Where nothing stands in for a registration that fails it
// has to be known before UCX chooses a protocol. Thread-safe.
class trials {
public:
    // `ask_others`: as cache_settings'.
    explicit trials(bool (*ask_others)() = [] { return false; })
        : ask_others_(ask_others)
    {
        keep_from_forks<mutex_>();
    }

    // False if the NIC takes the memory of no GPU that can be tried; why was
    // logged. A GPU that is not in use cannot, and without any it is true.
    // `changes`: what was found counts for as long as that is the same.
    bool takes_memory(gpu_vendor &gpus, registrar &nic, const char *name,
                      uint64_t changes);

private:
    std::optional<bool> ask(gpu_vendor &gpus, registrar &nic, const char *name,
                            int gpu, uint64_t changes);

    bool (*const ask_others_)();
    inline static std::mutex mutex_; // of all, for forks
    struct result {
        bool works;
        uint64_t changes; // before it
    };
    std::map<std::pair<std::string, int>, result> known_;
};

} // namespace ucx_ib_dmabuf
