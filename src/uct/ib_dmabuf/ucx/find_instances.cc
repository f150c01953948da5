// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"
#include "ucx_instance.h"
#include "versions.h"
#include <algorithm>
#include <array>
#include <atomic>
#include <loader/enable.h>
#include <mutex>
#include <new>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

constexpr char symbol_of_ucp[] = "ucp_get_version_string";

// The prepared UCX instances. Entries are only added; their libraries stay
// open, so no other library can occupy their addresses.
struct known_instance {
    const void *defined;        // uct_ib_component, in libuct_ib
    uct_component_t *component; // the one in use, see in_use()
    ucx_instance *served;       // null if not wanted
};
std::array<known_instance, 16> instances;
std::atomic<size_t> instance_count;
std::mutex mutex; // for additions

std::span<const known_instance> known_instances()
{
    return {instances.data(), instance_count.load(std::memory_order_acquire)};
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

// Why an instance is declined, if it is, and the consequence.
struct refusal {
    std::string reason;
    std::string outcome = WITHOUT_PLUGIN;
};

// Warns once for each reason. The instance is not remembered, as another
// library may occupy its addresses later. No warning if another thread has
// served it meanwhile: then its md_open looked like another library's.
void decline(const void *defined, const std::string &path,
             const std::string &version, const refusal &why)
{
    // Never destroyed: a UCX may also be loaded at process exit.
    static auto &reported = *new std::set<std::string>;
    std::string text      = path + ", " + why.reason;

    {
        const std::lock_guard<std::mutex> guard(mutex);
        if ((find(defined) != nullptr) || (read_enable() == 0) ||
            !reported.insert(text).second) {
            return;
        }
    }
    if (is_newer_than_known(version)) {
        text += " (it is UCX " + version +
                "; the newest that this plug-in knows is " + newest_known_ucx +
                ")";
    }
    log_warn("ib_dmabuf: not used for the UCX of %s. %s", text.c_str(),
             why.outcome.c_str());
}

const void *md_open_of(const uct_component_t *component)
{
    const void *function = nullptr;
    return read_memory(&component->md_open, &function) ? function : nullptr;
}

refusal check_before_look_up(const library &uct_ib, const std::string &version,
                             const void *md_open)
{
    const library server = library::around(md_open);

    if (!uct_ib.has(md_open) &&
        (server.own_symbol("ucs_module_global_init") != nullptr)) {
        return {std::string("as ") + server.path() + " serves it already",
                "Of two files of this plug-in the first one is used: its "
                "settings and its counters count"};
    }
    if (is_too_old(uct_ib)) {
        return {"which is " + (version.empty() ? "older than 1.16"
                               : claims_1_16(version)
                                   ? "a snapshot from before UCX " + version
                                   : "UCX " + version),
                std::string(newer_ucx) +
                    ". It sends GPU memory as it does without the plug-in"};
    }
    return {};
}

refusal check(const ucx_instance &found)
{
    const std::lock_guard<std::mutex> guard(mutex);

    if (instance_count == instances.size()) {
        return {"as " + std::to_string(instances.size()) +
                " others came first"};
    }
    return {found.can_be_served()
                ? ""
                : "which has not a component that can be written"};
}

// Calls neither UCX nor the loader, as it holds the lock. Returns whether the
// instance is served now.
bool add(known_instance added, ucx_instance *made, bool wanted,
         make_md_ops make)
{
    const std::lock_guard<std::mutex> guard(mutex);
    const size_t count = instance_count.load(std::memory_order_relaxed);

    if ((find(added.defined) != nullptr) || (count == instances.size())) {
        return false; // another thread was faster
    }
    made->parser().publish();
    added.served     = (wanted && add_ucm(made->ucm())) ? made : nullptr;
    instances[count] = added;
    instance_count.store(count + 1, std::memory_order_release);
    if (added.served != nullptr) {
        added.served->serve(make);
    }
    return added.served != nullptr;
}

refusal serve(library &&uct_ib, const std::string &version,
              const known_instance &candidate, const services &with)
{
    const char *missing = nullptr;

    if (refusal why = check_before_look_up(uct_ib, version,
                                           md_open_of(candidate.component));
        !why.reason.empty()) {
        return why;
    }
    auto found =
        ucx_instance::look_up(std::move(uct_ib), candidate.component, &missing);
    if (missing != nullptr) {
        return {std::string("which has not ") + missing};
    }
    if (refusal why = check(*found); !why.reason.empty()) {
        return why;
    }
    ucx_instance *made = found.release(); // other threads may hold parts of it
    set_first_ucs(made->ucs());
    const bool wanted = with.prepare(*made);
    if (!add(candidate, made, wanted, with.make)) {
        return {};
    }
    log_debug("ib_dmabuf: plug-in loaded, for the UCX of %s (%s)", made->path(),
              version.c_str());
    if (is_newer_than_known(version)) {
        log_info("ib_dmabuf: the UCX of %s is %s, newer than %s, the newest "
                 "that this plug-in knows. All that it uses is there",
                 made->path(), version.c_str(), newest_known_ucx);
    }
    return {};
}

// The component that a libuct_ib uses: its own, or the program's if the program
// is linked with it and holds the variable (a copy relocation).
uct_component_t *in_use(const library &uct_ib, uct_component_t *defined)
{
    const library everything = library::everything();
    const auto seen =
        static_cast<uct_component_t *>(everything.symbol(symbol_of_uct_ib));

    return ((seen != nullptr) && everything.has(seen) &&
            uct_ib.has(md_open_of(seen)))
               ? seen
               : defined;
}

// Empty if no libucp is loaded for this libuct_ib.
std::string find_version(const library &uct_ib,
                         const std::vector<library> &loaded)
{
    constexpr char probe[] = "uct_query_components";

    for (const library &each : loaded) {
        if ((each.own_symbol(symbol_of_ucp) != nullptr) &&
            (each.symbol(probe) == uct_ib.symbol(probe))) {
            return version_of(each);
        }
    }
    return "";
}

void look_at(const library &each, const std::vector<library> &loaded,
             const services &with)
{
    const auto defined =
        static_cast<uct_component_t *>(each.own_symbol(symbol_of_uct_ib));

    if ((defined == nullptr) || is_known(defined)) {
        return;
    }
    const auto component = in_use(each, defined);
    if (each.is_program() && !each.has(md_open_of(component))) {
        return; // the list has the library itself, too
    }
    const std::string version = find_version(each, loaded);
    const refusal why         = serve(library::around(defined), version,
                                      {defined, component, nullptr}, with);
    if (!why.reason.empty()) {
        decline(defined, each.path(), version, why);
    }
}

void look_at_all(const services &with)
{
    const std::vector<library> loaded =
        library::defining(std::array{symbol_of_uct_ib, symbol_of_ucp});

    for (const library &each : loaded) {
        look_at(each, loaded, with);
    }
    for (const library &each : loaded) {
        const auto serves = [&](const known_instance &one) {
            return (one.served != nullptr) && one.served->is_with(each);
        };
        if (std::ranges::none_of(known_instances(), serves)) {
            continue;
        }
        const char *why = nullptr;
        if ((with.atomics != nullptr) &&
            ((why = divert_atomics(each, with.atomics)) != nullptr)) {
            log_debug("ib_dmabuf: %s: the CPU does atomic operations of "
                      "messages also in GPU memory: %s",
                      each.path(), why);
        }
        if ((with.memhs != nullptr) &&
            ((why = divert_memh_get(each, with.memhs)) != nullptr)) {
            log_debug("ib_dmabuf: %s: UCP's cache has an entry for each buffer "
                      "of GPU memory: %s",
                      each.path(), why);
        }
    }
}

} // namespace

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
        look_at_all(with);
        looked_at = loaded;
    }
    // UCP and the CUDA module may be loaded by now.
    for (const known_instance &each : known_instances()) {
        if (each.served != nullptr) {
            if (with.offer_cuda_copy != nullptr) {
                with.offer_cuda_copy(*each.served);
            }
            each.served->change_defaults();
        }
    }
} catch (const std::bad_alloc &) {
    static std::atomic_flag reported;
    if (!reported.test_and_set()) {
        log_warn("ib_dmabuf: no memory of the host to look for UCX");
    }
}

} // namespace ucx_ib_dmabuf
