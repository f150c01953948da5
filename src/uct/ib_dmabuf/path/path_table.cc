// SPDX-License-Identifier: BSD-3-Clause
#include "path_table.h"
#include <chrono>
#include <thread>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

// Limit of the wait for another thread's check.
constexpr std::chrono::seconds patience{10};

check_result run_check(const std::function<check_result()> &run)
try {
    check_result result = run();
    process_counters.add("proofs", result.state != path_state::untested);
    return result;
} catch (const std::bad_alloc &) {
    return {path_state::untested, "no memory of the host"};
}

} // namespace

nic_paths::nic_paths(std::string name, const call_with_name &when_broken)
    : name_(std::move(name)), when_broken_(when_broken)
{
    for (reg_method preferred : {reg_method::standard, reg_method::pcie}) {
        for (nic_gpu_pair &each : pairs_[static_cast<size_t>(preferred)]) {
            each.first = {preferred, 0};
        }
    }
}

// Polls while another thread checks the path, which a forked child has not. The
// wait is limited, as that thread may wait in the GPU's driver for this one: an
// untested path is used. If it is found broken later, the cache drops its
// registrations.
std::optional<path_state> nic_paths::known_or_begin(path *which)
{
    const auto end = std::chrono::steady_clock::now() + patience;

    for (; std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(std::chrono::microseconds(100))) {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (which->state != path_state::unchecked) {
            return which->state.load();
        }
        if (unreachable_) {
            return path_state::untested;
        }
        // A system call, so only after the checks above.
        const pid_t self = getpid();
        if (which->checker != self) {
            which->checker = self;
            return std::nullopt;
        }
    }
    return path_state::untested;
}

// Returns false if the NIC has failed meanwhile: the result may be wrong or
// outdated. It counts all the same for a NIC that does not reach itself.
bool nic_paths::commit(path *which, uint64_t rechecks_before, bool last,
                       check_result *result)
{
    const std::lock_guard<std::mutex> guard(mutex_);

    if ((rechecks_ != rechecks_before) && !result->for_the_nic) {
        if (!last) {
            return false;
        }
        *result = {path_state::unchecked, ""};
    }
    ++which->attempts;
    if ((result->state == path_state::proven) ||
        (result->state == path_state::broken)) {
        which->state = result->state;
    } else if (which->attempts == max_attempts) {
        which->state = path_state::untested;
    }
    which->checker = 0; // waiting threads continue
    broken_        = broken_ || (result->state == path_state::broken);
    if (result->for_the_nic) {
        unreachable_ = true;
        ++unreached_;
    }
    return true;
}

void nic_paths::report(int gpu, reg_method method, const check_result &result,
                       uint64_t nanoseconds) const
{
    const text which = format(
        "%s and GPU %d's memory (%s)", name(), gpu,
        (method == reg_method::pcie) ? "dma-buf in PCIe mapping" : "dma-buf");

    switch (result.state) {
    case path_state::broken:
        // A single message for the pair: other methods are likely to fail
        // alike.
        warn_once(
            format("broken %s %d", name(), gpu),
            format("%s: %s. Such messages would be wrong or lost, so this "
                   "path is not used; they are staged through host "
                   "memory where UCX can. Likely causes are an IOMMU or "
                   "PCIe ACS that redirects peer-to-peer traffic, "
                   "passthrough to a virtual machine, or a PCIe switch or "
                   "root complex between the two that does not forward "
                   "it; beside a GPU of GB200's kind, Data Direct of another "
                   "GPU's NIC (UCX_IB_DIRECT_NIC=n): docs/troubleshooting.md "
                   "has what to look at",
                   which.c_str(), result.why.c_str()));
        break;
    case path_state::untested:
        log_info("ib_dmabuf: %s: not proven: %s", which.c_str(),
                 result.why.c_str());
        break;
    case path_state::unchecked:
        warn_once(format("recheck %s %d", name(), gpu),
                  format("%s: operations of the NIC's fail again and again "
                         "while it is looked at whether it still carries what "
                         "is sent. %s, until that is known",
                         which.c_str(), staged_otherwise));
        break;
    case path_state::proven:
        log_debug("ib_dmabuf: %s: proven in %zu us", which.c_str(),
                  size_t{nanoseconds / 1000});
        break;
    }
}

path_state nic_paths::check(path *which, int gpu, reg_method method,
                            const std::function<check_result()> &run)
{
    if (const auto known = known_or_begin(which)) {
        return *known;
    }
    const uint64_t begin = nanoseconds_now();
    check_result result;
    for (int round = 1;; ++round) {
        const uint64_t rechecks_before = rechecks_;
        result                         = run_check(run);
        if (commit(which, rechecks_before, round == max_attempts, &result)) {
            break;
        }
    }
    report(gpu, method, result, nanoseconds_now() - begin);
    if (result.state == path_state::broken) {
        process_counters.add("refuted");
        if (when_broken_) {
            when_broken_(name());
        }
    }
    return result.state;
}

void nic_paths::recheck() noexcept
{
    ++rechecks_;
    unreachable_ = unreachable_ && (unreached_ >= max_attempts);
    for (auto &pairs : pairs_) {
        for (nic_gpu_pair &pair : pairs) {
            for (path &each : pair.paths) {
                if (each.state != path_state::broken) {
                    each.state    = path_state::unchecked;
                    each.attempts = 0;
                }
            }
        }
    }
}

path_table::path_table(nic_paths::call_with_name when_broken)
    : when_broken_(std::move(when_broken))
{
    at_fork<&nic_paths::mutex_>();
}

nic_paths &path_table::of(const char *nic)
{
    const std::lock_guard<std::mutex> guard(nic_paths::mutex_);
    return nics_.try_emplace(nic, nic, when_broken_).first->second;
}

void path_table::recheck(const char *nic) noexcept
{
    const std::lock_guard<std::mutex> guard(nic_paths::mutex_);
    const auto found = nics_.find(nic);
    if (found != nics_.end()) {
        found->second.recheck();
    }
}

} // namespace ucx_ib_dmabuf
