// SPDX-License-Identifier: BSD-3-Clause
#include "path_table.h"
#include <algorithm>
#include <thread>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

check_result run_check(const std::function<check_result()> &run)
try {
    check_result result = run();
    process_counters.add("proofs", result.state != path_state::untested);
    return result;
} catch (const std::bad_alloc &) {
    return {path_state::untested, "no memory of the host"};
}

} // namespace

nic_paths::nic_paths(std::string name, reg_method preferred,
                     std::chrono::milliseconds patience,
                     const call_with_name &broken)
    : name_(std::move(name)), preferred_(preferred), patience_(patience),
      when_broken_(broken)
{
    for (pair &each : pairs_) {
        each.first = {preferred, 0};
    }
}

first_method nic_paths::first(int gpu) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return pairs_[gpu_index(gpu)].first;
}

void nic_paths::set_first(int gpu, first_method before, first_method after)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    first_method &stored = pairs_[gpu_index(gpu)].first;
    if (stored == before) {
        stored = after;
    }
}

// Polls while another thread checks the path: that thread holds none of our
// locks, and does not exist in a forked child. The wait is limited: an untested
// path is used. If it is found broken later, the cache drops its registrations.
std::optional<path_state> nic_paths::known_or_begin(path *which,
                                                    uint64_t *rechecks_before)
{
    const auto end = std::chrono::steady_clock::now() + patience_;

    for (; std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(std::chrono::microseconds(100))) {
        const std::lock_guard<std::mutex> guard(mutex_);
        if (unreachable_) {
            return path_state::untested;
        }
        if ((which->state != path_state::untested) ||
            (which->attempts == max_attempts)) {
            return which->state;
        }
        // A system call, so only after the checks above.
        const pid_t self = getpid();
        if (which->checker != self) {
            which->checker   = self;
            *rechecks_before = rechecks_;
            return std::nullopt;
        }
    }
    log_debug("ib_dmabuf: another thread has been checking a path of %s for "
              "%zd ms: it is used meanwhile",
              name(), static_cast<ssize_t>(patience_.count()));
    return path_state::untested;
}

// Returns false if the NIC has failed meanwhile: the result may be wrong or
// outdated. It counts all the same for a NIC that does not reach itself.
bool nic_paths::commit(path *which, check_result *result,
                       uint64_t *rechecks_before, bool last)
{
    const std::lock_guard<std::mutex> guard(mutex_);

    if ((rechecks_ != *rechecks_before) && !result->for_the_nic) {
        *rechecks_before = rechecks_;
        if (!last) {
            return false;
        }
        *result = {path_state::recheck, ""};
    }
    which->state = (result->state == path_state::recheck) ? path_state::untested
                                                          : result->state;
    which->checker = 0; // waiting threads continue
    ++which->attempts;
    broken_ += result->state == path_state::broken;
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
    case path_state::recheck:
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

path_state nic_paths::check(int gpu, reg_method method,
                            const std::function<check_result()> &run)
{
    path &which              = path_of(gpu, method);
    uint64_t rechecks_before = 0;
    const std::optional<path_state> known =
        known_or_begin(&which, &rechecks_before);

    if (known) {
        return *known;
    }
    const uint64_t begin = nanoseconds_now();
    check_result result;
    int rounds = 0;
    do {
        result = run_check(run);
    } while (
        !commit(&which, &result, &rechecks_before, ++rounds == max_attempts));
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
    for (pair &each : pairs_) {
        for (path &one : each.paths) {
            if (one.state != path_state::broken) {
                one.state    = path_state::untested;
                one.attempts = 0;
            }
        }
    }
}

bool nic_paths::is_broken(int gpu, reg_method method) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return pairs_[gpu_index(gpu)].paths[static_cast<size_t>(method)].state ==
           path_state::broken;
}

bool nic_paths::has_broken() const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return broken_ > 0;
}

uint64_t nic_paths::changes() const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    return rechecks_ + broken_;
}

std::optional<bool> nic_paths::probed(int gpu) const
{
    const std::lock_guard<std::mutex> guard(mutex_);
    const pair &of = pairs_[gpu_index(gpu)];
    return (of.probed_at == rechecks_ + broken_) ? of.probed : std::nullopt;
}

void nic_paths::set_probed(int gpu, bool works, uint64_t changes_before)
{
    const std::lock_guard<std::mutex> guard(mutex_);
    pair &of     = pairs_[gpu_index(gpu)];
    of.probed    = works;
    of.probed_at = changes_before;
}

path_table::path_table(std::chrono::milliseconds patience) : patience_(patience)
{
    at_fork<&nic_paths::mutex_>();
}

nic_paths &path_table::of(const char *nic, reg_method preferred)
{
    const std::lock_guard<std::mutex> guard(nic_paths::mutex_);
    return nics_
        .try_emplace({nic, preferred}, nic, preferred, patience_, when_broken_)
        .first->second;
}

void path_table::recheck(const char *nic) noexcept
{
    const std::lock_guard<std::mutex> guard(nic_paths::mutex_);
    for (auto &[key, paths] : nics_) {
        if (key.first == nic) {
            paths.recheck();
        }
    }
}

} // namespace ucx_ib_dmabuf
