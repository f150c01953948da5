// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include "copy_component.h"
#include "domain.h"
#include "library.h"
#include "settings.h"
#include "ucm.h"
#include "ucp.h"
#include "ucs.h"
#include "verbs.h"
#include <atomic>
#include <memory>
#include <optional>

namespace ucx_ib_dmabuf {

// One copy of UCX that is loaded, known by its libuct_ib: all that is used of
// it, looked up in that library's own scope. A process may have several, with
// any names; nothing of one is ever used with another. Made once, never
// destroyed.
class host {
public:
    // Looks all up in a library that defines uct_ib_component, and checks that
    // it is what we think; changes nothing. Null, and what it has not, if it is
    // not. `component` is the one in use.
    static std::unique_ptr<host>
    look_up(library &&uct_ib, uct_component_t *component, const char **why);

    const char *path() const { return uct_ib_.path(); }
    const ucs_functions &ucs() const { return ucs_; }
    const ucm_functions &ucm() const { return ucm_; }
    const verbs_functions &verbs() const { return verbs_; }
    config_parser &parser() { return parser_; }
    uct_component_t *component() const { return component_; }

    // Whether the library uses the same libucs.
    bool is_with(const library &other) const;

    // Whether serve() can. Of several threads only one may ask.
    bool can_be_served() const { return is_writable(&component_->md_open); }
    // From now on the domains that this uct_ib opens are given to `make`.
    void serve(make_domain make);
    // Gives a UCX without CUDA a transport that copies, once there is one who
    // does. Thread-safe.
    void offer_copies(find_copier find);
    // UCX's defaults that the plug-in has better ones for, in what is loaded of
    // it by now.
    void change_defaults() const noexcept;

    // md_open, with uct_ib's own in it.
    ucs_status_t open(const char *name, const void *config,
                      uct_md_h *md) const noexcept;

private:
    using md_open_function = decltype(uct_component_t::md_open);

    host(library &&uct_ib, uct_component_t *component)
        : uct_ib_(std::move(uct_ib)), component_(component)
    {
    }
    const char *find_all();
    const char *check(uct_md_h md, const char *name, ibv_pd **pd) const;
    bool is_of_this_copy(const void *address) const;
    std::optional<int> setting_of(const void *config, const char *name) const;
    void decorate(uct_md_h md, const char *name, const void *config) const;
    // failures.cc: the domain hears of endpoints that fail, of the interfaces
    // that are opened from now on.
    void watch_failures() const;
    void change_default(const char *table, const char *name,
                        const char *value) const;

    library uct_ib_;
    uct_component_t *const component_;
    ucs_functions ucs_{};
    ucm_functions ucm_{};
    verbs_functions verbs_{};
    config_parser parser_;

    md_open_function md_open_ = nullptr; // uct_ib's
    make_domain make_         = nullptr;

    std::atomic<bool> offers_copies_{false}; // or it was found that none can be
};

// What the copies of UCX that are found are served with.
struct services {
    // Whether a copy is wanted. Asked with no lock held, and by two threads
    // about the same copy if both look at once.
    bool (*prepare)(host &copy);
    make_domain make;
    // Does what UCP would have the CPU do in any memory; null: UCP does.
    do_atomic atomics = nullptr;
    // Who copies for those without CUDA; null: nobody.
    find_copier find = nullptr;
};

// Looks for copies of UCX that are new since the last time, and serves those
// that are wanted. The first copy is the one whose log, memory types and events
// the whole process uses. What is no copy as we know them is declined, with one
// warning for each, until another library is loaded: then it is looked at
// again. Thread-safe; to be called whenever there may be another: cheap if
// nothing was loaded.
void serve_new_copies(const services &with) noexcept;

} // namespace ucx_ib_dmabuf
