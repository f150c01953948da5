// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_PROVE_PROOFS_H_
#define UCX_IB_DMABUF_PROVE_PROOFS_H_

#include "../verbs/ladder.h"
#include "node_file.h"
#include "proof.h"
#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <sys/types.h>
#include <tuple>

namespace ucx_ib_dmabuf {

// What was found of the paths between NICs and GPUs, once for each in this
// process. Thread-safe.
class proofs {
public:
    // `node`: where what is found is kept, too; null: nowhere. `trusts_node`:
    // what is there is not found out again.
    explicit proofs(const node_file *node = nullptr, bool trusts_node = false);

    // NIC, GPU, step, and how the NIC registers.
    using path = std::tuple<std::string, int, ladder_step, std::string>;

    // What is known, or what the proof says, which is told. No lock is held
    // over it: who asks for the same path meanwhile waits, and nobody else.
    finding ask(const path &which, const std::function<verdict()> &prove);

    // What a proof says, which is kept under the key; or what is there already.
    verdict ask_node(const std::string &key,
                     const std::function<verdict()> &prove) const;

    // Without asking.
    bool is_refuted(const path &which) const;

    uint64_t made() const { return made_; }
    uint64_t refuted() const { return refuted_; }

private:
    // What cannot be found out may be later: the GPU comes into use, a port
    // becomes active. So often:
    static constexpr int max_attempts = 3;

    struct entry {
        finding found = finding::unknown;
        int attempts  = 0;
        pid_t prover  = 0; // who is at it; not the parent of a fork
    };

    finding known_or_begin(const path &which, entry **begun);

    static std::mutex mutex_; // of all, for forks
    const node_file *const node_;
    const bool trusts_node_;
    std::map<path, entry> all_;
    std::set<std::string> unreachable_; // NICs that do not reach themselves
    std::atomic<uint64_t> made_{0};
    std::atomic<uint64_t> refuted_{0};
};

} // namespace ucx_ib_dmabuf

#endif
