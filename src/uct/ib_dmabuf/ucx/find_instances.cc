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
#include <span>
#include <string>
#include <uct/ib_dmabuf/report.h>
#include <utility>
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
std::array<known_instance, max_instances> instances;
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
void decline(const library &uct_ib, const void *defined,
             const std::string &version, const refusal &why)
{
    const text newer = !is_newer_than_known(version)
                           ? text()
                           : format(" (it is UCX %s; the newest that this "
                                    "plug-in knows is %s)",
                                    version.c_str(), newest_known_ucx);

    if (!is_known(defined) && (read_enable() != 0)) {
        const text what =
            format("not used for the UCX of %s, %s%s. %s", uct_ib.path(),
                   why.reason.c_str(), newer.c_str(), why.outcome.c_str());
        warn_once(what, what);
    }
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
    const size_t others  = known_instances().size();

    if (others == instances.size()) {
        return {"as " + std::to_string(others) + " others came first"};
    }
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

refusal serve(library &&uct_ib, const std::string &version,
              known_instance added, const services &with)
{
    const char *missing = nullptr;

    if (refusal why =
            check_before_look_up(uct_ib, version, md_open_of(added.component));
        !why.reason.empty()) {
        return why;
    }
    auto found =
        ucx_instance::look_up(std::move(uct_ib), added.component, &missing);
    if (missing != nullptr) {
        return {std::string("which has not ") + missing};
    }
    ucx_instance *made = found.release(); // other threads may hold parts of it
    set_first_ucs(made->ucs());
    added.served = with.prepare(*made) ? made : nullptr;
    {
        // Calls neither UCX nor the loader.
        const std::lock_guard<std::mutex> guard(mutex);
        const size_t count = instance_count.load(std::memory_order_relaxed);
        if ((find(added.defined) != nullptr) || (count == instances.size())) {
            return {}; // another thread was faster
        }
        made->parser().publish();
        if (added.served != nullptr) {
            add_ucm(made->ucm());
        }
        instances[count] = added;
        instance_count.store(count + 1, std::memory_order_release);
        if (added.served == nullptr) {
            return {};
        }
        made->serve(with.make);
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
        decline(each, defined, version, why);
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
        const std::pair<const char *, const char *> kept[] = {
            {divert_atomics(each, with.atomics),
             "the CPU does atomic operations of messages also in GPU memory"},
            {divert_memh_get(each, with.memhs),
             "UCP's cache has an entry for each buffer of GPU memory"}};
        for (const auto &[why, what] : kept) {
            if (why != nullptr) {
                log_debug("ib_dmabuf: %s: %s: %s", each.path(), what, why);
            }
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
            with.offer_cuda_copy(*each.served);
            each.served->change_defaults();
        }
    }
} catch (const std::bad_alloc &) {
    constexpr char message[] = "no memory of the host to look for UCX";
    warn_once(message, message);
}

} // namespace ucx_ib_dmabuf
