// SPDX-License-Identifier: BSD-3-Clause
#include "reg_methods.h"
#include "verbs_errors.h"
#include <cerrno>
#include <climits>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

constexpr ladder_step other_than(ladder_step step)
{
    return step == ladder_step::standard ? ladder_step::pcie
                                         : ladder_step::standard;
}

constexpr const char *name_of(ladder_step step)
{
    return step == ladder_step::standard ? "standard mapping" : "PCIe mapping";
}

} // namespace

bool has_data_direct(const protection_domain &pd)
{
    const mlx5_functions &mlx5 = pd.mlx5;
    ibv_context *context       = pd.verbs_pd->context;
    char path[PATH_MAX];

    return (mlx5.is_supported != nullptr) &&
           (mlx5.get_data_direct_sysfs_path != nullptr) &&
           mlx5.is_supported(context->device) &&
           (mlx5.get_data_direct_sysfs_path(context, path, sizeof(path)) == 0);
}

// The same for all NICs and GPUs: a machine with eight of each has the error in
// every pair, and the same remedy.
text ladder::cause(const char *what, const outcome &failed)
{
    return format("%s %d %d", what, static_cast<int>(failed.step),
                  failed.error);
}

ladder::ladder(const protection_domain &pd, bool tries_data_direct,
               path_judge *judge)
    : pd_(pd), judge_(judge),
      preferred_(tries_data_direct && has_data_direct(pd)
                     ? ladder_step::pcie
                     : ladder_step::standard)
{
    if (!tries_data_direct && has_data_direct(pd)) {
        log_info("ib_dmabuf: %s has Data Direct, which UCX uses from 1.20 on, "
                 "unless UCX_IB_DIRECT_NIC=n: this one reaches GPU memory "
                 "without it",
                 pd.device_name());
    }
    for (auto &gpu : known_) {
        gpu = {preferred_, 0};
    }
}

size_t ladder::place(int gpu)
{
    const auto index = static_cast<size_t>(gpu);

    return index < max_gpus ? index : max_gpus - 1;
}

ucs_status_t ladder::reg(dmabuf_source &memory, int gpu, uintptr_t address,
                         size_t length, dmabuf_registration &by, void **handle,
                         ladder_step *step)
{
    const request what{memory, gpu, address, length, by};
    const knowledge before = known_[place(gpu)];
    const outcome first =
        attempt_judged(before.first, what, before.failures == works);
    outcome now    = first;
    outcome failed = first; // to report: the standard mapping if possible, as
                            // users know only that

    if ((first.status != UCS_OK) && goes_on(before, first)) {
        now = attempt_judged(other_than(first.step), what, false);
        if (first.refuted && (now.status == UCS_OK) && !now.proven) {
            by.dereg(now.handle); // probably the same path
            now = first;
        }
        failed = (now.step == ladder_step::pcie) ? first : now;
    }
    if (now.status != UCS_OK) {
        report_failed(what, failed);
        return failed.status;
    }
    learn(gpu, before, first, now.step);
    if ((before.failures != works) || (first.status != UCS_OK)) {
        report_chosen(gpu, first, now);
    }
    if (first.status != UCS_OK) {
        report_skipped(what, first);
    }
    if (step != nullptr) {
        *step = now.step;
    }
    *handle = now.handle;
    return UCS_OK;
}

// Whether the other step may succeed. Data Direct registers only nearby memory.
// A step that has worked and lacks room has to get room, as Data Direct carries
// nothing in the standard mapping.
bool ladder::goes_on(knowledge before, const outcome &failed) const
{
    if ((before.failures == works) && (failed.status == UCS_ERR_NO_MEMORY)) {
        return false;
    }
    return (preferred_ == ladder_step::pcie) || failed.refuted ||
           (failed.error == kernel_enotsupp);
}

// Proves an unknown path only after the step has registered the caller's
// memory: then the proof's memory is likely to register, too.
ladder::outcome ladder::attempt_judged(ladder_step step, const request &what,
                                       bool proven)
{
    const outcome refuted{step, UCS_ERR_UNSUPPORTED, 0, nullptr, true};

    if ((judge_ != nullptr) && judge_->is_refuted(step, what.gpu)) {
        return refuted;
    }
    outcome result = attempt(step, what, proven);
    if ((judge_ == nullptr) || (result.status != UCS_OK)) {
        return result;
    }
    const finding found = judge_->judge(step, what.gpu, what.by);
    if ((found == finding::carries) || (found == finding::unknown)) {
        result.proven = found == finding::carries;
        return result;
    }
    what.by.dereg(result.handle);
    return (found == finding::refuted)
               ? refuted
               : outcome{step, UCS_ERR_BUSY, 0, nullptr};
}

// `proven`: the step has worked for this NIC and GPU. Otherwise no other NIC
// shares its dma-buf in PCIe mapping. The NVIDIA drivers 570 and 575 leave a
// dma-buf locked if a NIC of another IOMMU group maps it, and later maps and
// unmaps of it hang (nv_dma_buf_map).
ladder::outcome ladder::attempt(ladder_step step, const request &what,
                                bool proven)
{
    const mapping_type how = mapping_of(step);
    const bool alone       = (how == mapping_type::pcie) && !proven;
    outcome result{step, UCS_OK, 0, nullptr};
    int fd = -1;

    if (alone) {
        what.memory.drop(how);
    }
    result.status = what.memory.get(how, &fd);
    if (result.status == UCS_OK) {
        const uint64_t begin = nanoseconds_now();
        errno                = 0;
        result.handle =
            what.by.reg(fd, what.memory.offset(), what.address, what.length);
        if (result.handle == nullptr) {
            // Data Direct lacks room: uct_ib has retried without it.
            const bool no_room = proven && (how == mapping_type::pcie) &&
                                 (errno == kernel_enotsupp);
            result.error  = no_room ? ENOMEM : errno;
            result.status = meaning_of(result.error).status;
        } else {
            process_counters.add_time("registration_time",
                                      nanoseconds_now() - begin);
        }
    }
    if (alone) {
        what.memory.drop(how);
    }
    return result;
}

// A step that works stays first, whatever single registrations fail later: for
// one, only Data Direct needs room in a coherent GPU's BAR1. If another thread
// has stored a result meanwhile, that one is as good.
void ladder::learn(int gpu, knowledge before, const outcome &first,
                   ladder_step worked)
{
    knowledge after = before;

    if (first.status == UCS_OK) {
        after.failures = works;
    } else if (before.failures != works) {
        const bool lasts =
            (first.error == 0)
                ? first.status == UCS_ERR_UNSUPPORTED
                : meaning_of(first.error).scope == error_scope::pair;
        ++after.failures;
        if (lasts || (after.failures == enough)) {
            after = {worked, works};
        }
    }
    if ((after.first != before.first) || (after.failures != before.failures)) {
        known_[place(gpu)].compare_exchange_strong(before, after);
    }
}

text ladder::describe(const request &what, const outcome &failed) const
{
    return format("%s: ibv_reg_dmabuf_mr(address 0x%zx, %zu bytes) of GPU %d's "
                  "memory failed: %s",
                  pd_.device_name(), what.address, what.length, what.gpu,
                  describe_error(failed.error).c_str());
}

// Logs the pair's step, as it may explain a slow pair.
void ladder::report_chosen(int gpu, const outcome &first,
                           const outcome &chosen) const
{
    text why;

    if (!log_is_on(log_level::info)) {
        return;
    }
    if (first.refuted) {
        why = ", as what it tried before does not carry what is sent";
    } else if (first.status != UCS_OK) {
        why = format(", as what it tried before failed (%s)",
                     (first.error == 0) ? ucs_status_string(first.status)
                                        : describe_error(first.error).c_str());
    }
    inform_once(format("%s and GPU %d: registered in %s%s; %s",
                       pd_.device_name(), gpu, name_of(chosen.step),
                       why.c_str(),
                       chosen.proven       ? "bytes were seen to arrive"
                       : judge_ != nullptr ? "not known whether bytes arrive"
                                           : "trusted that bytes arrive"));
}

// The other step has worked. Debug level if the GPU is not near the NIC's Data
// Direct device or BAR1 is full, as both are expected.
void ladder::report_skipped(const request &what, const outcome &first) const
{
    if (first.error == 0) {
        return; // not an error of the verb
    }
    const text message = format(
        "%s. It is registered in %s instead: %s", describe(what, first).c_str(),
        name_of(other_than(first.step)), meaning_of(first.error).remedy);

    if ((first.error == kernel_enotsupp) || (first.error == ENOMEM)) {
        log_debug("ib_dmabuf: %s", message.c_str());
    } else {
        warn_once(cause("skip", first), message);
    }
}

void ladder::report_failed(const request &what, const outcome &failed) const
{
    if (failed.error == 0) {
        return; // reported elsewhere
    }
    report_refusal(cause("register", failed), describe(what, failed),
                   meaning_of(failed.error).remedy,
                   failed.status == UCS_ERR_BUSY);
}

} // namespace ucx_ib_dmabuf
