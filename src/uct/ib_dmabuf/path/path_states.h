// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "reg_methods.h"
#include "transfer_check.h"
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <tuple>

namespace ucx_ib_dmabuf {

// The findings for paths between NICs and GPUs, of the whole process. Each path
// is proven once, until an operation fails. Thread-safe.
class proofs {
public:
    // `patience` limits the wait for another thread's proof.
    explicit proofs(
        std::chrono::milliseconds patience = std::chrono::seconds(10));

    // Sets the function that is called, without a lock, when a path of the NIC
    // is refuted: the path may be in use, if it could not be proven before.
    // Once, before any ask().
    void call_when_refuted(std::function<void(const char *nic)> what)
    {
        when_refuted_ = std::move(what);
    }

    // NIC, GPU and step.
    using path = std::tuple<std::string, int, ladder_step>;

    // Returns the known finding, or calls `prove` and reports the result. Holds
    // no lock meanwhile. Only threads that ask for the same path wait; after
    // `patience` the finding is unknown to them.
    finding ask(const path &which, const std::function<verdict()> &prove);

    // Called after an operation of the NIC has failed, maybe because a path
    // broke: its paths are proven again. Refuted paths stay refuted. Works
    // without memory.
    void doubt(const char *nic) noexcept;

    // Does not prove.
    bool is_refuted(const path &which) const;
    // Whether any path of the NIC is refuted.
    bool has_refuted(const char *nic) const;
    // Changes when the findings for the NIC's paths may not hold any more.
    uint64_t changes(const char *nic) const;

private:
    // A failed proof may succeed later: the GPU comes into use, a port becomes
    // active. Limits the attempts after each doubt, and the rounds of an ask()
    // with doubts meanwhile.
    static constexpr int max_attempts = 3;

    struct entry {
        finding found = finding::unknown;
        int attempts  = 0;
        pid_t prover  = 0; // process that proves it, or 0
    };
    struct nic_record {
        std::map<path, entry> paths;
        uint64_t doubts  = 0;
        uint64_t refuted = 0;     // number of such paths
        bool unreachable = false; // it does not reach itself
        int unreached    = 0;     // how often that was found
    };
    // A proof that this thread has to make.
    struct task {
        const path &which;
        nic_record *nic = nullptr;
        entry *one      = nullptr;
        uint64_t doubts = 0; // before the proof
    };

    finding known_or_begin(task *mine);
    verdict find_out(const std::function<verdict()> &prove);
    bool commit(task *mine, verdict *result, bool last);
    const nic_record *find(std::string_view nic) const;

    inline static std::mutex mutex_; // static for keep_from_forks()
    const std::chrono::milliseconds patience_;
    std::function<void(const char *nic)> when_refuted_;
    std::map<std::string, nic_record, std::less<>> nics_;
};

} // namespace ucx_ib_dmabuf
