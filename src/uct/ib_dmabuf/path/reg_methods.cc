// SPDX-License-Identifier: BSD-3-Clause
#include "reg_methods.h"
#include "path_check.h"
#include "verbs_errors.h"
#include <cerrno>
#include <climits>
#include <memory>
#include <new>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

constexpr reg_method other_than(reg_method method)
{
    return method == reg_method::standard ? reg_method::pcie
                                          : reg_method::standard;
}

constexpr const char *name_of(reg_method method)
{
    return method == reg_method::standard ? "standard mapping" : "PCIe mapping";
}

// The methods are the values of the label "path".
static_assert(static_cast<size_t>(reg_method::pcie) + 1 == by_path.count());

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

reg_methods::reg_methods(const protection_domain &pd, bool tries_data_direct,
                         importer &by, path_table &table, path_checker checker)
    : by_(by), preferred_((tries_data_direct && has_data_direct(pd))
                              ? reg_method::pcie
                              : reg_method::standard),
      paths_(table.of(pd.device_name())), checker_(std::move(checker))
{
    if (!tries_data_direct && has_data_direct(pd)) {
        log_info("ib_dmabuf: %s has Data Direct, which UCX uses from 1.20 on, "
                 "unless UCX_IB_DIRECT_NIC=n: this one reaches GPU memory "
                 "without it",
                 name());
    }
}

ucs_status_t reg_methods::reg(const request &what, registration **made)
{
    pair_row &pair = process_counters.of(name(), what.gpu);
    std::unique_ptr<registration> result(new (std::nothrow) registration{});
    // A lack of host memory is not reported as NO_MEMORY, which means the GPU
    // or the NIC.
    const outcome chosen =
        result ? choose(what)
               : outcome{.method = preferred_, .status = UCS_ERR_BUSY};

    if (chosen.status != UCS_OK) {
        pair.add("failures");
        return chosen.status;
    }
    const auto path = static_cast<size_t>(chosen.method);
    process_counters.add("path_bytes", what.length, path);
    pair.add_region(path, what.length);
    *result = {by_.buffer_of(chosen.handle, what.address), what.length,
               chosen.handle, &pair};
    *made   = result.release();
    return UCS_OK;
}

void reg_methods::dereg(registration *made)
{
    const std::unique_ptr<registration> ended(made);

    by_.dereg(ended->handle);
    ended->pair->end_region(ended->length);
}

reg_methods::outcome reg_methods::choose(const request &what)
{
    nic_gpu_pair &pair        = paths_.pair(what.gpu, preferred_);
    const first_method before = pair.first;
    const outcome first =
        attempt_checked(&pair, before.method, what, before.has_worked());
    outcome now    = first;
    outcome failed = first; // to report: the standard mapping if possible, as
                            // users know only that

    if ((first.status != UCS_OK) && may_fall_back(before, first)) {
        now = attempt_checked(&pair, other_than(before.method), what, false);
        if (first.is_broken() && (now.status == UCS_OK) &&
            (now.path != path_state::proven)) {
            by_.dereg(now.handle); // probably the same path
            now = first;
        }
        failed = (now.method == reg_method::pcie) ? first : now;
    }
    if (now.status != UCS_OK) {
        report(what, failed, false);
        return failed;
    }
    remember(&pair, before, first);
    if (!before.has_worked()) {
        report_chosen(what.gpu, first, now);
    }
    if (first.status != UCS_OK) {
        report(what, first, true);
    }
    return now;
}

// Data Direct registers only nearby memory. A method that has worked and lacks
// room has to get room: Data Direct transfers nothing in the standard mapping.
bool reg_methods::may_fall_back(first_method before,
                                const outcome &failed) const
{
    if (before.has_worked() && (failed.status == UCS_ERR_NO_MEMORY)) {
        return false;
    }
    return (preferred_ == reg_method::pcie) || failed.is_broken() ||
           (failed.error == kernel_enotsupp);
}

// A method that works stays first, whatever registrations fail later. A method
// that never worked is given up after the other one replaced it this often.
void reg_methods::remember(nic_gpu_pair *pair, first_method before,
                           const outcome &first)
{
    constexpr uint8_t enough = 3;
    first_method after       = before;

    if (first.status == UCS_OK) {
        after.failures = first_method::works;
    } else if (!before.has_worked()) {
        const bool lasts =
            (first.error == 0)
                ? first.status == UCS_ERR_UNSUPPORTED
                : meaning_of(first.error).scope == error_scope::pair;
        ++after.failures;
        if (lasts || (after.failures == enough)) {
            after = {other_than(before.method), first_method::works};
        }
    }
    if (after != before) { // and no other thread has changed it
        pair->first.compare_exchange_strong(before, after);
    }
}

// An unchecked path is checked only after this method has registered the
// caller's memory: then it is likely to register the check's memory, too.
reg_methods::outcome reg_methods::attempt_checked(nic_gpu_pair *pair,
                                                  reg_method method,
                                                  const request &what,
                                                  bool has_worked)
{
    const outcome broken{.method = method,
                         .status = UCS_ERR_UNSUPPORTED,
                         .path   = path_state::broken};
    path &which = pair->of(method);

    if (checker_ && (which.state == path_state::broken)) {
        return broken;
    }
    outcome result = attempt(method, what, has_worked);
    if (!checker_ || (result.status != UCS_OK)) {
        return result;
    }
    result.path = which.state;
    if (result.path == path_state::unchecked) {
        const registered_buffer memory =
            by_.buffer_of(result.handle, what.address);
        const auto run = [&] {
            return checker_(what.gpu, method,
                            what.is_probe ? &memory : nullptr);
        };
        result.path = paths_.check(&which, what.gpu, method, std::ref(run));
    }
    switch (result.path) {
    case path_state::broken:
        by_.dereg(result.handle);
        return broken;
    case path_state::unchecked:
        by_.dereg(result.handle);
        return {.method = method, .status = UCS_ERR_BUSY};
    default:
        return result;
    }
}

// Until the method has worked for this NIC and GPU, no other NIC shares its
// dma-buf in PCIe mapping. The NVIDIA drivers 570 and 575 leave a dma-buf
// locked if a NIC of another IOMMU group maps it: its next user hangs
// (nv_dma_buf_map).
reg_methods::outcome reg_methods::attempt(reg_method method,
                                          const request &what, bool has_worked)
{
    const bool alone = (method == reg_method::pcie) && !has_worked;
    outcome result{method};
    int fd = -1;

    if (alone) {
        what.memory.drop(method);
    }
    result.status = what.memory.get(method, &fd);
    if (result.status == UCS_OK) {
        const uint64_t begin = nanoseconds_now();
        errno                = 0;
        result.handle =
            by_.reg(fd, what.memory.offset(), what.address, what.length);
        if (result.handle == nullptr) {
            // Data Direct lacks room: uct_ib has retried without it.
            const bool no_room = has_worked && (method == reg_method::pcie) &&
                                 (errno == kernel_enotsupp);
            result.error  = no_room ? ENOMEM : errno;
            result.status = meaning_of(result.error).status;
        } else {
            process_counters.add_time("registration_time",
                                      nanoseconds_now() - begin);
        }
    }
    if (alone) {
        what.memory.drop(method);
    }
    return result;
}

// Logs the pair's method, as it may explain a slow pair.
void reg_methods::report_chosen(int gpu, const outcome &first,
                                const outcome &chosen) const
{
    text why;

    if (first.is_broken()) {
        why = ", as what it tried before does not carry what is sent";
    } else if (first.status != UCS_OK) {
        why = format(", as what it tried before failed (%s)",
                     (first.error == 0) ? ucs_status_string(first.status)
                                        : describe_error(first.error).c_str());
    }
    log_info("ib_dmabuf: %s and GPU %d: registered in %s%s; %s", name(), gpu,
             name_of(chosen.method), why.c_str(),
             chosen.path == path_state::proven ? "bytes were seen to arrive"
             : checker_ ? "not known whether bytes arrive"
                        : "trusted that bytes arrive");
}

// Logs a failed attempt: of all methods, or `is_replaced` by the other method.
void reg_methods::report(const request &what, const outcome &failed,
                         bool is_replaced) const
{
    if (failed.error == 0) {
        return; // not an error of the verb: reported elsewhere
    }
    const char *remedy  = meaning_of(failed.error).remedy;
    const text happened = format(
        "%s: ibv_reg_dmabuf_mr(address 0x%zx, %zu bytes) of GPU %d's memory "
        "failed: %s",
        name(), what.address, what.length, what.gpu,
        describe_error(failed.error).c_str());
    // The same for all NICs and GPUs: a machine with eight of each has the
    // error in every pair, and the same remedy.
    const text cause = format("%s %d %d", is_replaced ? "skip" : "register",
                              static_cast<int>(failed.method), failed.error);
    if (!is_replaced) {
        report_refusal(cause, happened, remedy, failed.status == UCS_ERR_BUSY);
        return;
    }
    const text message =
        format("%s. It is registered in %s instead: %s", happened.c_str(),
               name_of(other_than(failed.method)), remedy);
    // Expected if the GPU is not near the NIC's Data Direct device, or if BAR1
    // is full.
    if ((failed.error == kernel_enotsupp) || (failed.error == ENOMEM)) {
        log_debug("ib_dmabuf: %s", message.c_str());
    } else {
        warn_once(cause, message);
    }
}

static ucs_status_t try_buffer(gpu_vendor &gpus, reg_methods &nic, int gpu,
                               const gpu_vendor::probe_buffer &what)
{
    return persist([&] {
        dmabuf_exports memory(gpus, what.address, what.length);
        registration *made        = nullptr;
        const ucs_status_t status = nic.reg(
            {memory, gpu, what.address, what.length, what.length >= check_size},
            &made);
        if (status == UCS_OK) {
            nic.dereg(made);
        }
        return status;
    });
}

// Whether the pair works; nullopt if that is not known.
static std::optional<bool> probe(gpu_vendor &gpus, reg_methods &nic, int gpu,
                                 bool (*make_room)())
{
    if (nic.works(gpu)) {
        return true;
    }
    const auto buffer = gpus.allocate_probe_buffer(gpu);
    if (!buffer) {
        return std::nullopt;
    }
    ucs_status_t status = try_buffer(gpus, nic, gpu, *buffer);
    if (lacks_room(status) && make_room()) {
        status = try_buffer(gpus, nic, gpu, *buffer);
    }
    log_debug("ib_dmabuf: %s: a probe of GPU %d's memory: %s", nic.name(), gpu,
              ucs_status_string(status));
    return (status == UCS_ERR_BUSY) ? std::nullopt
                                    : std::optional(status == UCS_OK);
}

bool registers_gpu_memory(gpu_vendor &gpus, reg_methods &nic,
                          bool (*make_room)())
{
    int fails = -1;
    int works = -1;

    for (const int gpu : gpus.gpus_in_use()) {
        const std::optional<bool> answer = probe(gpus, nic, gpu, make_room);
        if (answer) {
            (*answer ? works : fails) = gpu;
        }
    }
    if ((fails >= 0) && (works >= 0)) {
        warn_once(format("probe %s", nic.name()),
                  format("%s: GPU %d's memory can be registered, but not GPU "
                         "%d's: what sends that over this device fails, as "
                         "UCX cannot tell GPUs apart. Let each process see "
                         "only GPUs that work (CUDA_VISIBLE_DEVICES), or leave "
                         "the device out (UCX_NET_DEVICES)",
                         nic.name(), works, fails));
    }
    return (fails < 0) || (works >= 0);
}

} // namespace ucx_ib_dmabuf
