// SPDX-License-Identifier: BSD-3-Clause
#include "path_states.h"
#include <array>
#include <chrono>
#include <thread>
#include <uct/ib_dmabuf/fork_mutex.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

using std::chrono::microseconds;

const char *name_of(ladder_step step)
{
    static constexpr std::array<const char *, 2> names{
        "dma-buf", "dma-buf in PCIe mapping"};

    return names[static_cast<size_t>(step)];
}

void report(const proofs::path &which, const verdict &result, microseconds took)
{
    const auto &[nic, gpu, step] = which;
    const text of =
        format("%s and GPU %d's memory (%s)", nic.c_str(), gpu, name_of(step));

    if (result.what == finding::refuted) {
        // A single message for the pair: other steps are likely to fail alike.
        warn_once(
            format("refuted %s %d", nic.c_str(), gpu),
            format("%s: %s. Such messages would be wrong or lost, so this "
                   "path is not used; they are staged through host "
                   "memory where UCX can. Likely causes are an IOMMU or "
                   "PCIe ACS that redirects peer-to-peer traffic, "
                   "passthrough to a virtual machine, or a PCIe switch or "
                   "root complex between the two that does not forward "
                   "it; beside a GPU of GB200's kind, Data Direct of another "
                   "GPU's NIC (UCX_IB_DIRECT_NIC=n): docs/troubleshooting.md "
                   "has what to look at",
                   of.c_str(), result.why.c_str()));
    } else if (result.what == finding::unknown) {
        log_info("ib_dmabuf: %s: not proven: %s", of.c_str(),
                 result.why.c_str());
    } else if (result.what == finding::doubtful) {
        warn_once(format("doubtful %s %d", nic.c_str(), gpu),
                  format("%s: operations of the NIC's fail again and again "
                         "while it is looked at whether it still carries what "
                         "is sent. %s, until that is known",
                         of.c_str(), staged_otherwise));
    } else {
        log_debug("ib_dmabuf: %s: proven in %zd us", of.c_str(),
                  static_cast<ssize_t>(took.count()));
    }
}

} // namespace

proofs::proofs(std::chrono::milliseconds patience) : patience_(patience)
{
    keep_from_forks<mutex_>();
}

// Polls while another thread proves the path: that thread holds none of our
// locks, and does not exist in a forked child. The wait is limited: an unknown
// path is used (nic::judge).
finding proofs::known_or_begin(task *mine)
{
    const auto end = std::chrono::steady_clock::now() + patience_;

    for (; std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(microseconds(100))) {
        const std::lock_guard<std::mutex> guard(mutex_);
        nic_record &nic = nics_[std::get<0>(mine->which)];
        entry &one      = nic.paths[mine->which];
        if (nic.unreachable) {
            return finding::unknown;
        }
        if ((one.found != finding::unknown) || (one.attempts == max_attempts)) {
            return one.found;
        }
        // A system call, so only after the checks above.
        const pid_t self = getpid();
        if (one.prover != self) {
            one.prover   = self;
            mine->nic    = &nic;
            mine->one    = &one;
            mine->doubts = nic.doubts;
            return finding::unknown;
        }
    }
    log_debug("ib_dmabuf: another thread has been proving a path of %s for "
              "%zd ms: it is used meanwhile",
              std::get<0>(mine->which).c_str(),
              static_cast<ssize_t>(patience_.count()));
    return finding::unknown;
}

verdict proofs::find_out(const std::function<verdict()> &prove)
try {
    verdict found = prove();
    process_counters.add("proofs", found.what != finding::unknown ? 1 : 0);
    return found;
} catch (const std::bad_alloc &) {
    return {finding::unknown, "no memory of the host"};
}

// Returns false if the NIC has failed meanwhile: the result may be wrong or
// outdated. It counts all the same for a NIC that does not reach itself.
bool proofs::commit(task *mine, verdict *result, bool last)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    entry &one = *mine->one;

    if ((mine->nic->doubts != mine->doubts) && !result->for_the_nic) {
        mine->doubts = mine->nic->doubts;
        if (!last) {
            return false;
        }
        *result = {finding::doubtful, ""};
    }
    one.found =
        (result->what == finding::doubtful) ? finding::unknown : result->what;
    mine->nic->refuted += result->what == finding::refuted;
    one.prover = 0; // waiting threads continue
    ++one.attempts;
    if (result->for_the_nic) {
        mine->nic->unreachable = true;
        ++mine->nic->unreached;
    }
    return true;
}

finding proofs::ask(const path &which, const std::function<verdict()> &prove)
{
    task mine{which};
    const finding known = known_or_begin(&mine);

    if (mine.one == nullptr) {
        return known;
    }
    const auto start = std::chrono::steady_clock::now();
    verdict result;
    int rounds = 0;
    do {
        result = find_out(prove);
    } while (!commit(&mine, &result, ++rounds == max_attempts));
    report(which, result,
           std::chrono::duration_cast<microseconds>(
               std::chrono::steady_clock::now() - start));
    if (result.what == finding::refuted) {
        process_counters.add("refuted");
        if (when_refuted_) {
            when_refuted_(std::get<0>(which).c_str());
        }
    }
    return result.what;
}

void proofs::doubt(const char *nic) noexcept
{
    const std::lock_guard<std::mutex> guard(mutex_);
    auto found = nics_.find(std::string_view(nic));
    try {
        if (found == nics_.end()) {
            found = nics_.try_emplace(nic).first;
        }
    } catch (const std::bad_alloc &) { // no path of it was asked for
        return;
    }
    nic_record &record = found->second;
    ++record.doubts;
    record.unreachable =
        record.unreachable && (record.unreached >= max_attempts);
    for (auto &[which, one] : record.paths) {
        if (one.found != finding::refuted) {
            one.found    = finding::unknown;
            one.attempts = 0;
        }
    }
}

// With the lock held. Returns nullptr if no path of the NIC was asked for.
const proofs::nic_record *proofs::find(std::string_view nic) const
{
    const auto found = nics_.find(nic);
    return (found == nics_.end()) ? nullptr : &found->second;
}

bool proofs::is_refuted(const path &which) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const nic_record *nic = find(std::get<0>(which));
    if (nic == nullptr) {
        return false;
    }
    const auto found = nic->paths.find(which);
    return (found != nic->paths.end()) &&
           (found->second.found == finding::refuted);
}

bool proofs::has_refuted(const char *nic) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const nic_record *of = find(nic);
    return (of != nullptr) && (of->refuted > 0);
}

uint64_t proofs::changes(const char *nic) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const nic_record *of = find(nic);
    return (of == nullptr) ? 0 : of->doubts + of->refuted;
}

} // namespace ucx_ib_dmabuf
