// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include "library.h"
#include "md_override.h"
#include "settings.h"
#include "ucm.h"
#include "ucp.h"
#include "ucs.h"
#include "verbs.h"
#include <atomic>
#include <memory>
#include <optional>

namespace ucx_ib_dmabuf {

// A loaded UCX instance, identified by its libuct_ib, in whose scope its
// symbols are looked up. A process may have several. Never destroyed.
class ucx_instance {
public:
    // Changes nothing. Returns nullptr and sets `why` to what is missing if a
    // check fails. `component` is the one in use.
    static std::unique_ptr<ucx_instance>
    look_up(library &&uct_ib, uct_component_t *component, const char **why);

    const library &uct_ib() const { return uct_ib_; }
    const char *path() const { return uct_ib_.path(); }
    const ucs_functions &ucs() const { return ucs_; }
    const ucm_functions &ucm() const { return ucm_; }
    const verbs_functions &verbs() const { return verbs_; }
    config_parser &parser() { return parser_; }
    uct_component_t *component() const { return component_; }

    bool is_with(const library &other) const;
    // Whether the address is in this uct_ib. Since 1.18, parts of uct_ib are in
    // modules of their own.
    bool owns(const void *address) const;

    // From now on, `make` is called for each domain that this uct_ib opens.
    void serve(make_md_ops make);
    // Replaces defaults in the UCX libraries loaded so far.
    void change_defaults() const noexcept;

    // Replaces uct_ib's md_open, and calls it.
    ucs_status_t open(const char *name, const void *config,
                      uct_md_h *md) const noexcept;

    // Call it before serve().
    void set_has_cuda(bool yes) { ucm_.has_cuda = yes; }
    // Set by cuda_copy/ once this UCX has its cuda_copy, or can have none.
    std::atomic<bool> cuda_copy_decided{false};
    // Set by cuda_copy/ once UCX's own need not try exports.
    std::atomic<bool> knows_exports{false};

private:
    ucx_instance(library &&uct_ib, uct_component_t *component)
        : uct_ib_(std::move(uct_ib)), component_(component)
    {
    }
    const char *find_all();
    const char *check(uct_md_h md, const char *name, ibv_pd **pd) const;
    std::optional<int> setting_of(const void *config, const char *name) const;
    bool override_md(uct_md_h md, const char *name, const void *config) const;
    void change_default(const char *table, const char *name,
                        const char *value) const;

    library uct_ib_;
    uct_component_t *const component_;
    ucs_functions ucs_{};
    ucm_functions ucm_{};
    verbs_functions verbs_{};
    config_parser parser_;

    md_open_function *md_open_ = nullptr; // uct_ib's
    make_md_ops make_          = nullptr;
};

// The callbacks for UCX instances.
struct services {
    // Whether the instance is wanted. Called with no lock held; two threads may
    // call it at once for the same instance.
    bool (*prepare)(ucx_instance &instance);
    make_md_ops make;
    // Performs atomic operations that UCP leaves to the CPU.
    do_atomic atomics;
    // Called in misses of UCP's cache of memory handles.
    get_memh memhs;
    // Offers copies of GPU memory. Called for each served instance whenever a
    // UCX may have been loaded.
    void (*offer_cuda_copy)(ucx_instance &to);
};

// Serves the wanted instances among those loaded since the last call. The
// process uses the log, memory types and events of the first one. An instance
// that fails a check is declined with a warning, and checked again after
// another library is loaded. Thread-safe; cheap if no library was loaded.
void serve_new_instances(const services &with) noexcept;

} // namespace ucx_ib_dmabuf
