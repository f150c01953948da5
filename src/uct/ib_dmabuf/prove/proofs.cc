// SPDX-License-Identifier: BSD-3-Clause
#include "proofs.h"
#include "../host/log.h"
#include <chrono>
#include <pthread.h>
#include <thread>
#include <unistd.h>
#include <vector>

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

uint64_t proofs::doubts(const std::string &nic) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = doubts_.find(nic);
    return (found == doubts_.end()) ? 0 : found->second;
}

// What was doubted and cannot be found out is not to be trusted, either.
void proofs::keep(const std::string &key, finding found, bool doubted) const
{
    if (key.empty()) {
        return;
    }
    if (found == finding::carries) {
        node_->keep(key);
    } else if ((found == finding::refuted) || doubted) {
        node_->drop(key);
    }
}

// Again if the NIC has failed meanwhile: that may be of what was shown before.
verdict proofs::find_out(const std::string &nic, const std::string &key,
                         const std::function<verdict()> &prove)
{
    for (;;) {
        const uint64_t before = doubts(nic);
        verdict found{finding::carries, ""};
        found.is_kept =
            trusts_node_ && (before == 0) && !key.empty() && node_->has(key);
        if (!found.is_kept) {
            found = prove();
            made_ += found.what != finding::unknown;
            keep(key, found.what, before != 0);
        }
        if ((found.what != finding::carries) || (doubts(nic) == before)) {
            return found;
        }
    }
}

finding proofs::ask(const path &which, const std::function<std::string()> &key,
                    const std::function<verdict()> &prove)
{
    entry *mine         = nullptr;
    const finding known = known_or_begin(which, &mine);

    if (mine == nullptr) {
        return known;
    }
    const auto start = std::chrono::steady_clock::now();
    verdict result{finding::unknown, "no memory of the host"};
    std::string kept_as;
    try {
        kept_as = (node_ != nullptr) ? key() : std::string();
        result  = find_out(std::get<0>(which), kept_as, prove);
    } catch (const std::bad_alloc &) { // as it says
    }
    report(which, result,
           std::chrono::duration_cast<microseconds>(
               std::chrono::steady_clock::now() - start));
    refuted_ += result.what == finding::refuted;

    const std::lock_guard<std::mutex> guard(mutex_);
    mine->found  = result.what;
    mine->key    = std::move(kept_as);
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

void proofs::doubt(const std::string &nic) noexcept
try {
    std::vector<std::string> kept;
    {
        const std::lock_guard<std::mutex> guard(mutex_);
        ++doubts_[nic];
        for (auto &[which, one] : all_) {
            if ((std::get<0>(which) == nic) &&
                (one.found == finding::carries)) {
                kept.push_back(one.key);
                one.found    = finding::unknown;
                one.attempts = 0;
            }
        }
    }
    for (const std::string &key : kept) {
        if (!key.empty()) {
            node_->drop(key);
        }
    }
} catch (const std::bad_alloc &) { // then what was shown is believed
}

bool proofs::is_refuted(const path &which) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = all_.find(which);
    return (found != all_.end()) && (found->second.found == finding::refuted);
}

} // namespace ucx_ib_dmabuf
