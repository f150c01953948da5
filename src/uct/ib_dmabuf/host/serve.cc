// SPDX-License-Identifier: BSD-3-Clause
#include "host.h"
#include "log.h"
#include <array>
#include <atomic>
#include <mutex>
#include <new>

namespace ucx_ib_dmabuf {
namespace {

// The copies that were dealt with. Only ever grows.
struct known_copy {
    const void *defined;        // uct_ib_component, in libuct_ib
    uct_component_t *component; // the one in use, see in_use()
    host *served;               // null: declined
};
std::array<known_copy, 16> copies;
std::atomic<size_t> copy_count;
std::mutex mutex; // of those who add

const known_copy *find(const void *component)
{
    const size_t count = copy_count.load(std::memory_order_acquire);

    for (size_t i = 0; i < count; ++i) {
        if ((copies[i].defined == component) ||
            (copies[i].component == component)) {
            return &copies[i];
        }
    }
    return nullptr;
}

ucs_status_t md_open(uct_component_t *component, const char *name,
                     const void *config, uct_md_h *md) noexcept
{
    return find(component)->served->open(name, config, md);
}

// Under the lock.
void add(const known_copy &added)
{
    const size_t count = copy_count.load(std::memory_order_relaxed);

    copies[count] = added;
    copy_count.store(count + 1, std::memory_order_release);
}

// The look-ups came before, as the loader's lock is not to be waited for with
// ours held: another thread may have been faster.
void add_new(known_copy copy, std::unique_ptr<host> found,
             const std::string &path, const char *why,
             bool (*prepare)(host &copy), make_domain make)
{
    const std::lock_guard<std::mutex> guard(mutex);

    if (find(copy.defined) != nullptr) {
        return;
    }
    if (copy_count == copies.size()) {
        static std::atomic_flag told;
        if (!told.test_and_set()) {
            log_warn("ib_dmabuf: not used for the UCX of %s, as %zu others "
                     "came before it. Messages in GPU memory are staged "
                     "through host memory",
                     path.c_str(), copies.size());
        }
        return;
    }
    if (found && !found->can_be_served()) {
        why = "a component that can be written";
    }
    if (why != nullptr) {
        log_warn("ib_dmabuf: not used for the UCX of %s, which has not %s. "
                 "Messages in GPU memory are staged through host memory",
                 path.empty() ? "the program" : path.c_str(), why);
        add(copy);
        return;
    }
    host *taken = found.release(); // others may hold what is in it
    set_first_ucs(taken->ucs());
    if (!prepare(*taken) || !add_ucm(taken->ucm())) {
        add(copy);
        return;
    }
    copy.served = taken;
    add(copy);
    taken->serve(make);
    log_debug("ib_dmabuf: plug-in loaded, for the UCX of %s (as of %s)",
              taken->path(), taken->generation().since);
}

// Null where it cannot be read.
const void *md_open_of(const uct_component_t *component)
{
    const void *function = nullptr;
    return read_memory(&component->md_open, &function) ? function : nullptr;
}

// The component that a libuct_ib uses: its own, or the program's, if that is
// linked with it and has a copy of the variable (a copy relocation).
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

void look_for_copies(bool (*prepare)(host &copy), make_domain make)
{
    for (const std::string &path : library::all()) {
        library uct_ib(path.c_str());
        const auto defined =
            static_cast<uct_component_t *>(uct_ib.symbol("uct_ib_component"));
        if ((defined == nullptr) || !uct_ib.has(defined) ||
            (find(defined) != nullptr)) {
            continue;
        }
        const auto component = in_use(uct_ib, defined);
        if (uct_ib.is_program() && !uct_ib.has(md_open_of(component))) {
            continue; // the library itself will come
        }
        const char *why = nullptr;
        auto found      = host::look_up(std::move(uct_ib), component, &why);
        add_new({defined, component, nullptr}, std::move(found), path, why,
                prepare, make);
    }
}

} // namespace

void host::serve(make_domain make)
{
    make_ = make; // and md_open_ is known: other threads may call at once
    std::atomic_ref(component_->md_open).store(md_open);
}

void serve_new_copies(bool (*prepare)(host &copy), make_domain make) noexcept
try {
    static std::atomic<uint64_t> looked_at;
    const uint64_t loaded = library::count_loaded();

    if (looked_at != loaded) {
        look_for_copies(prepare, make);
        looked_at = loaded;
    }
    // UCP and the CUDA module may be there now.
    const size_t count = copy_count.load(std::memory_order_acquire);
    for (size_t i = 0; i < count; ++i) {
        if (copies[i].served != nullptr) {
            copies[i].served->change_defaults();
        }
    }
} catch (const std::bad_alloc &) {
    static std::atomic_flag told;
    if (!told.test_and_set()) {
        log_warn("ib_dmabuf: no memory of the host to look for UCX");
    }
}

} // namespace ucx_ib_dmabuf
