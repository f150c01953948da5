// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include <atomic>
#include <cstddef>
#include <span>

namespace ucx_ib_dmabuf {

class config_parser;
class library;

// UCM: events of memory allocation and release. The same in every UCX, except
// fields at the end of an event.

enum ucm_event_type_t : uint32_t {
    UCM_EVENT_VM_UNMAPPED     = 1u << 17,
    UCM_EVENT_MEM_TYPE_ALLOC  = 1u << 20,
    UCM_EVENT_MEM_TYPE_FREE   = 1u << 21,
    UCM_EVENT_FLAG_NO_INSTALL = 1u << 24,
};

union ucm_event_t {
    struct {
        void *address;
        size_t size;
    } vm_unmapped;
    struct {
        void *address;
        size_t size;
        ucs_memory_type_t mem_type;
        uint8_t sys_dev;   // from 1.22
        uint8_t mem_flags; // from 1.22
    } mem_type;
    uint64_t words[8];
};

using ucm_event_callback_t = void (*)(ucm_event_type_t type, ucm_event_t *event,
                                      void *arg);

struct ucs_list_link_t {
    ucs_list_link_t *prev;
    ucs_list_link_t *next;
};

struct ucm_event_installer_t {
    ucs_status_t (*install)(int events);
    void *get_existing_alloc;
    ucs_list_link_t list;
};

struct ucm_functions {
    void (*event_dispatch)(ucm_event_type_t type, ucm_event_t *event);
    void (*event_enter)();
    void (*event_leave)();
    ucs_status_t (*set_event_handler)(int events, int priority,
                                      ucm_event_callback_t callback, void *arg);
    const ucs_list_link_t *event_installer_list;
    // Whether the user allows to patch CUDA's functions.
    bool hook_by_bistro;
    // Makes UCX query the driver for the memory's type.
    ucs_memory_type_t unknown_type;
    // Whether its own hooks report each release of CUDA memory.
    bool has_cuda = true;
    // Whether UCX exports memory before it chooses to register it: from 1.22.
    bool tries_exports = false;
};

// Returns nullptr, or the name of what is missing. `ucs` is that UCX's parser.
const char *look_up_ucm(const library &ucx, const config_parser &ucs,
                        ucm_functions *out);

// A process may have so many UCX instances.
constexpr size_t max_instances = 16;

// From now on, releases are announced to this UCM. Keeps the reference for
// good.
void add_ucm(const ucm_functions &added) noexcept;
// The added UCMs, in the order of addition. The plug-in relies on the hooks and
// events of the first one. Thread-safe.
std::span<const ucm_functions *const> all_ucm() noexcept;

// In md_override.cc. Notes a registration by a UCX without CUDA, which UCP may
// cache until the release of its allocation is announced. If registers_unseen
// is set, UCP may cache registrations in any allocation.
void note_registered(uintptr_t address) noexcept;
inline std::atomic<bool> registers_unseen{false};
// Whether UCP may cache a registration in the released allocation; removes its
// notes. UCP 1.17 to 1.20 queues each announced release until its next call.
bool take_registered(uintptr_t address, size_t length) noexcept;

} // namespace ucx_ib_dmabuf
