// SPDX-License-Identifier: BSD-3-Clause
#include "proofs.h"
#include "../host/log.h"
#include <chrono>
#include <pthread.h>
#include <thread>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

using std::chrono::microseconds;

const char *name_of(ladder_step step)
{
    switch (step) {
    case ladder_step::data_direct:
        return "Data Direct";
    case ladder_step::standard:
        return "dma-buf";
    case ladder_step::pcie:
        return "dma-buf in PCIe mapping";
    }
    return "";
}

void report(const proofs::path &which, const verdict &result, microseconds took)
{
    const auto &[nic, gpu, step, how] = which;
    const text of =
        format("%s and GPU %d's memory (%s)", nic.c_str(), gpu, name_of(step));

    if (result.what == finding::refuted) {
        // One for the pair: other steps are likely to fail for the same reason.
        warn_once(
            format("refuted %s %d", nic.c_str(), gpu),
            format("%s: %s. Such messages would be wrong or lost, so this "
                   "path is not used; they are staged through host "
                   "memory where UCX can. Likely causes are an IOMMU or "
                   "PCIe ACS that redirects peer-to-peer traffic, "
                   "passthrough to a virtual machine, or a PCIe switch or "
                   "root complex between the two that does not forward "
                   "it: docs/proof.md has what to look at",
                   of.c_str(), result.why.c_str()));
    } else if (result.what == finding::unknown) {
        log_info("ib_dmabuf: %s: not proven: %s", of.c_str(),
                 result.why.c_str());
    } else if (result.is_kept) {
        log_debug("ib_dmabuf: %s: proven before on this node", of.c_str());
    } else {
        log_debug("ib_dmabuf: %s: proven in %zd us", of.c_str(),
                  static_cast<ssize_t>(took.count()));
    }
}

} // namespace

std::mutex proofs::mutex_;

proofs::proofs(const node_file *node, bool trusts_node)
    : node_(node), trusts_node_(trusts_node)
{
    [[maybe_unused]] static const int once =
        pthread_atfork([] { mutex_.lock(); }, [] { mutex_.unlock(); },
                       [] { mutex_.unlock(); });
}

// Nothing to wait for if somebody else is at it: he holds none of our locks,
// and a child of fork may find that he is gone.
finding proofs::known_or_begin(const path &which, entry **begun)
{
    const pid_t self = getpid();

    for (;; std::this_thread::sleep_for(microseconds(100))) {
        const std::lock_guard<std::mutex> guard(mutex_);
        entry &one = all_[which];
        if (unreachable_.contains(std::get<0>(which))) {
            return finding::unknown;
        }
        if ((one.found != finding::unknown) || (one.attempts == max_attempts)) {
            return one.found;
        }
        if (one.prover != self) {
            one.prover = self;
            *begun     = &one;
            return finding::unknown;
        }
    }
}

verdict proofs::ask_node(const std::string &key,
                         const std::function<verdict()> &prove) const
{
    if (trusts_node_ && node_->has(key)) {
        verdict known{finding::carries, ""};
        known.is_kept = true;
        return known;
    }
    const verdict found = prove();
    if ((node_ != nullptr) && (found.what == finding::carries)) {
        node_->keep(key);
    } else if ((node_ != nullptr) && (found.what == finding::refuted)) {
        node_->drop(key);
    }
    return found;
}

finding proofs::ask(const path &which, const std::function<verdict()> &prove)
{
    entry *mine         = nullptr;
    const finding known = known_or_begin(which, &mine);

    if (mine == nullptr) {
        return known;
    }
    const auto start = std::chrono::steady_clock::now();
    verdict result{finding::unknown, "no memory of the host"};
    try {
        result = prove();
    } catch (const std::bad_alloc &) { // as it says
    }
    report(which, result,
           std::chrono::duration_cast<microseconds>(
               std::chrono::steady_clock::now() - start));
    made_ += (result.what != finding::unknown) && !result.is_kept;
    refuted_ += result.what == finding::refuted;

    const std::lock_guard<std::mutex> guard(mutex_);
    mine->found  = result.what;
    mine->prover = 0; // who waits goes on, whatever follows
    ++mine->attempts;
    if (result.for_the_nic) {
        try {
            unreachable_.insert(std::get<0>(which));
        } catch (const std::bad_alloc &) { // then it is asked once more
        }
    }
    return result.what;
}

bool proofs::is_refuted(const path &which) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = all_.find(which);
    return (found != all_.end()) && (found->second.found == finding::refuted);
}

} // namespace ucx_ib_dmabuf
