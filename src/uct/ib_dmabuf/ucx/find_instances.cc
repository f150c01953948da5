// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"
#include "ucx_instance.h"
#include "version.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <loader/enable.h>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <string>

namespace ucx_ib_dmabuf {
namespace {

// The prepared UCX instances. Entries are only added; their libraries stay
// open, so no other library can occupy their addresses.
struct known_instance {
    const void *defined;        // uct_ib_component, in libuct_ib
    uct_component_t *component; // the one in use, see in_use()
    ucx_instance *served;       // null if not wanted
};
std::array<known_instance, 16> copies;
std::atomic<size_t> instance_count;
std::mutex mutex; // for additions

std::span<const known_instance> known_instances()
{
    return {copies.data(), instance_count.load(std::memory_order_acquire)};
}

const known_instance *find(const void *component)
{
    for (const known_instance &each : known_instances()) {
        if ((each.defined == component) || (each.component == component)) {
            return &each;
        }
    }
    return nullptr;
}

// Waits for a thread that is adding the instance.
bool is_known(const void *component)
{
    const std::lock_guard<std::mutex> guard(mutex);
    return find(component) != nullptr;
}

ucs_status_t md_open(uct_component_t *component, const char *name,
                     const void *config, uct_md_h *md) noexcept
{
    return find(component)->served->open(name, config, md);
}

// Warns once for each reason, although a declined instance is checked again
// whenever a library is loaded. It is not remembered, as it may be unloaded and
// another library occupy its addresses. No warning if another thread has served
// it meanwhile: then its md_open looked like another library's.
void decline(const known_instance &copy, const std::string &path,
             const std::string &reason, const char *outcome = WITHOUT_PLUGIN)
{
    // Never destroyed: a UCX may also be loaded at process exit.
    static auto &told = *new std::set<std::string>;
    std::string text  = path.empty() ? "the program" : path;

    text += ", " + reason;
    {
        const std::lock_guard<std::mutex> guard(mutex);
        if ((find(copy.defined) != nullptr) || (read_enable() == 0) ||
            !told.insert(text).second) {
            return;
        }
    }
    const std::string version = version_of(library(path.c_str()));
    if (is_newer_than_known(version)) {
        text += " (it is UCX " + version +
                "; the newest that this plug-in knows is " + newest_known + ")";
    }
    log_warn("ib_dmabuf: not used for the UCX of %s. %s", text.c_str(),
             outcome);
}

// Returns nullptr if it cannot be read.
const void *md_open_of(const uct_component_t *component)
{
    const void *function = nullptr;
    return read_memory(&component->md_open, &function) ? function : nullptr;
}

bool is_plugin(const library &one)
{
    const void *start = one.symbol("ucs_module_global_init");
    return (start != nullptr) && one.has(start);
}

// Returns why a complete UCX instance cannot be added; empty if it can.
std::string obstacle(const ucx_instance &found)
{
    const std::lock_guard<std::mutex> guard(mutex);

    if (instance_count == copies.size()) {
        return "as " + std::to_string(copies.size()) + " others came first";
    }
    return found.can_be_served()
               ? ""
               : "which has not a component that can be written";
}

// Calls neither UCX nor the loader, as it holds the lock. Returns whether the
// instance is served now.
bool add(known_instance copy, ucx_instance *made, bool wanted, make_md_ops make)
{
    const std::lock_guard<std::mutex> guard(mutex);
    const size_t count = instance_count.load(std::memory_order_relaxed);

    if ((find(copy.defined) != nullptr) || (count == copies.size())) {
        return false; // another thread was faster
    }
    made->parser().show();
    copy.served   = (wanted && add_ucm(made->ucm())) ? made : nullptr;
    copies[count] = copy;
    instance_count.store(count + 1, std::memory_order_release);
    if (copy.served != nullptr) {
        copy.served->serve(make);
    }
    return copy.served != nullptr;
}

void look_at(library &&uct_ib, const std::string &path,
             const known_instance &copy, const services &with)
{
    const void *const md_open = md_open_of(copy.component);
    const library server      = library::around(md_open);
    const char *missing       = nullptr;

    if (!uct_ib.has(md_open) && is_plugin(server)) { // another file of ours
        decline(copy, path,
                std::string("as ") + server.path() + " serves it already",
                "Of two files of this plug-in the first one is used: its "
                "settings and its counters count");
        return;
    }
    if (is_too_old(uct_ib)) {
        const std::string version = version_of(uct_ib);
        decline(copy, path,
                "which is " + (version.empty() ? "older than 1.16"
                               : claims_1_16(version)
                                   ? "a snapshot from before UCX " + version
                                   : "UCX " + version),
                (std::string(newer_ucx) +
                 ". It sends GPU memory as it does without the plug-in")
                    .c_str());
        return;
    }
    auto found =
        ucx_instance::look_up(std::move(uct_ib), copy.component, &missing);

    if (missing != nullptr) {
        decline(copy, path, std::string("which has not ") + missing);
        return;
    }
    const std::string reason = obstacle(*found);
    if (!reason.empty()) {
        decline(copy, path, reason);
        return;
    }
    ucx_instance *made = found.release(); // other threads may hold parts of it
    set_first_ucs(made->ucs());
    const bool wanted = with.prepare(*made);
    if (!add(copy, made, wanted, with.make)) {
        return;
    }
    const std::string version = version_of(library(path.c_str()));
    log_debug("ib_dmabuf: plug-in loaded, for the UCX of %s (%s)", made->path(),
              version.c_str());
    if (is_newer_than_known(version)) {
        log_info("ib_dmabuf: the UCX of %s is %s, newer than %s, the newest "
                 "that this plug-in knows. All that it uses is there",
                 made->path(), version.c_str(), newest_known);
    }
}

// The component that a libuct_ib uses: its own, or the program's if the program
// is linked with it and holds the variable (a copy relocation).
uct_component_t *in_use(const library &uct_ib, uct_component_t *defined)
{
    const library everything = library::everything();
    const auto seen =
        static_cast<uct_component_t *>(everything.symbol("uct_ib_component"));

    return ((seen != nullptr) && everything.has(seen) &&
            uct_ib.has(md_open_of(seen)))
               ? seen
               : defined;
}

bool is_of_served_copy(const library &ucp)
{
    return std::ranges::any_of(
        known_instances(), [&](const known_instance &each) {
            return (each.served != nullptr) && each.served->is_with(ucp);
        });
}

// If the handler cannot be replaced, this libucp keeps UCX's behaviour.
void look_at_ucp(const library &ucp, do_atomic atomics)
{
    const char *why         = nullptr;
    ucp_am_handler_t *found = nullptr;

    if (is_of_served_copy(ucp)) {
        found = find_atomic_handler(ucp, &why);
    }
    if (found != nullptr) {
        const std::lock_guard<std::mutex> guard(mutex);
        why = divert_atomics(found, atomics);
    }
    if (why != nullptr) {
        log_debug("ib_dmabuf: %s: the CPU does atomic operations of messages "
                  "also in GPU memory: %s",
                  ucp.path(), why);
    }
}

void look_for_ucp(do_atomic atomics)
{
    if (atomics == nullptr) {
        return;
    }
    for (const std::string &path : library::all()) {
        look_at_ucp(library(path.c_str()), atomics);
    }
}

void find_instances(const services &with)
{
    for (const std::string &path : library::all()) {
        library uct_ib(path.c_str());
        const auto defined =
            static_cast<uct_component_t *>(uct_ib.symbol("uct_ib_component"));
        if ((defined == nullptr) || !uct_ib.has(defined) || is_known(defined)) {
            continue;
        }
        const auto component = in_use(uct_ib, defined);
        if (uct_ib.is_program() && !uct_ib.has(md_open_of(component))) {
            continue; // the list has the library itself, too
        }
        look_at(std::move(uct_ib), path, {defined, component, nullptr}, with);
    }
}

} // namespace

void ucx_instance::offer_cuda_copy(find_cuda_copy_ops find)
{
    const char *why = nullptr;

    if (offers_cuda_copy_.load()) {
        return;
    }
    // libcuda may be loaded later.
    cuda_copy_ops *copier = (find == nullptr) ? nullptr : find();
    if (copier == nullptr) {
        return;
    }
    cuda_copy_component *made =
        cuda_copy_component::make(uct_ib_, *copier, &why);
    {
        // Callers list components next: ours must be there by then.
        const std::lock_guard<std::mutex> guard(mutex);
        if (offers_cuda_copy_.load()) {
            return; // another thread was faster; `made` leaks, once
        }
        if (made != nullptr) {
            made->show();
        }
        offers_cuda_copy_.store(true);
    }
    if (made == nullptr) {
        log_debug("ib_dmabuf: no copies of GPU memory for the UCX of %s, which "
                  "has no %s",
                  path(), why);
        return;
    }
    log_debug("ib_dmabuf: the UCX of %s, which has no CUDA, is given cuda_copy",
              path());
}

void ucx_instance::serve(make_md_ops make)
{
    make_ = make; // before md_open: other threads may call it at once
    std::atomic_ref(component_->md_open).store(md_open);
}

void serve_new_instances(const services &with) noexcept
try {
    static std::atomic<uint64_t> looked_at;
    const uint64_t loaded = library::count_loaded();

    if (looked_at != loaded) {
        find_instances(with);
        look_for_ucp(with.atomics);
        looked_at = loaded;
    }
    // UCP and the CUDA module may be loaded by now.
    for (const known_instance &each : known_instances()) {
        if (each.served != nullptr) {
            each.served->change_defaults();
            each.served->offer_cuda_copy(with.find);
        }
    }
} catch (const std::bad_alloc &) {
    static std::atomic_flag told;
    if (!told.test_and_set()) {
        log_warn("ib_dmabuf: no memory of the host to look for UCX");
    }
}

} // namespace ucx_ib_dmabuf
