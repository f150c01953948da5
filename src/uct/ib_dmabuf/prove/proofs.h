// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../verbs/ladder.h"
#include "proof.h"
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <tuple>

namespace ucx_ib_dmabuf {

// What was found of the paths between NICs and GPUs, for all of the process:
// once for each, until an operation fails. Thread-safe.
class proofs {
public:
    // `patience`: how long to wait for another thread's proof.
    explicit proofs(
        std::chrono::milliseconds patience = std::chrono::seconds(10));

    // What is called, without a lock, when a path of the NIC's is refuted: it
    // may have been used before, as it could not be proven then. Once, before
    // anything is asked.
    void call_when_refuted(std::function<void(const char *nic)> what)
    {
        when_refuted_ = std::move(what);
    }

    // NIC, GPU and step.
    using path = std::tuple<std::string, int, ladder_step>;

    // What is known, or what the proof says, which is told. No lock is held
    // over it: who asks for the same path meanwhile waits, and nobody else; for
    // so long, then it is unknown.
    finding ask(const path &which, const std::function<verdict()> &prove);

    // An operation of the NIC's has failed, maybe as one of its paths does not
    // carry any more: those that did are found out anew. What was refuted stays
    // so. Needs no memory.
    void doubt(const char *nic) noexcept;

    // Without asking.
    bool is_refuted(const path &which) const;
    // Whether any path of the NIC's is.
    bool has_refuted(const char *nic) const;
    // Becomes another number when what was known of the NIC's paths may not
    // hold any more.
    uint64_t changes(const char *nic) const;

private:
    // What cannot be found out may be later: the GPU comes into use, a port
    // becomes active. So often, and so often after each doubt. As often it is
    // found out for one who asks, if doubts come meanwhile.
    static constexpr int max_attempts = 3;

    struct entry {
        finding found = finding::unknown;
        int attempts  = 0;
        pid_t prover  = 0; // who is at it; not the parent of a fork
    };
    struct nic_record {
        std::map<path, entry> paths;
        uint64_t doubts  = 0;
        uint64_t refuted = 0;     // of its paths
        bool unreachable = false; // it does not reach itself
        int unreached    = 0;     // how often that was found
    };
    // A proof that is to be made by this thread.
    struct task {
        const path &which;
        nic_record *nic = nullptr;
        entry *one      = nullptr;
        uint64_t doubts = 0; // before it
    };

    finding known_or_begin(task *mine);
    verdict find_out(const std::function<verdict()> &prove);
    bool commit(task *mine, verdict *result, bool last);
    const nic_record *find(std::string_view nic) const;

    inline static std::mutex mutex_; // of all, for forks
    const std::chrono::milliseconds patience_;
    std::function<void(const char *nic)> when_refuted_;
    std::map<std::string, nic_record, std::less<>> nics_;
};

} // namespace ucx_ib_dmabuf
