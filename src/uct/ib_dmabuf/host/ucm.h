// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include <atomic>
#include <cstddef>
#include <span>

namespace ucx_ib_dmabuf {

class config_parser;
class library;

// UCM: events of memory that is allocated and released. The same in every UCX,
// but for what comes at an event's end.

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
    // UCM's other events are smaller than this; none is for us.
    uint64_t words[8];
};

using ucm_event_callback_t = void (*)(ucm_event_type_t type, ucm_event_t *event,
                                      void *arg);

struct ucs_list_link_t {
    ucs_list_link_t *prev;
    ucs_list_link_t *next;
};

struct ucm_reloc_patch_t {
    const char *symbol;
    void *value;
    void *prev_value;
    ucs_list_link_t list;
    char **blacklist;
};

struct ucm_event_installer_t {
    ucs_status_t (*install)(int events);
    void *get_existing_alloc;
    ucs_list_link_t list;
};

// Those of one copy of UCX.
struct ucm_functions {
    void (*event_dispatch)(ucm_event_type_t type, ucm_event_t *event);
    void (*event_enter)();
    void (*event_leave)();
    ucs_status_t (*set_event_handler)(int events, int priority,
                                      ucm_event_callback_t callback, void *arg);
    ucs_status_t (*reloc_modify)(ucm_reloc_patch_t *patch);
    const ucs_list_link_t *event_installer_list;
    // Ways to hook CUDA that the user allows.
    bool hook_by_relocation;
    bool hook_by_bistro;
    // Of memory that UCX shall ask the driver about.
    ucs_memory_type_t unknown_type;
    // It hears of each release by its own hooks.
    bool has_cuda = true;
    // Of memory that it is to register: from 1.22 on.
    bool tries_exports = false;
};

// Null, or the name of what is missing. `ucs` knows the settings of that UCX.
const char *look_up_ucm(const library &ucx, const config_parser &ucs,
                        ucm_functions *out);

// From now on that UCM is told of releases. False: there are too many. Kept by
// reference, for good.
bool add_ucm(const ucm_functions &added) noexcept;
// Those that were added, in their order. The first one is whose hooks and
// events we rely on. Thread-safe.
std::span<const ucm_functions *const> all_ucm() noexcept;

// UCP may keep what a UCX without CUDA registers there, in one allocation,
// until it hears of its release; once something registers unseen, that may be
// anywhere.
void note_registered(uintptr_t address) noexcept;
inline std::atomic<bool> registers_unseen{false};
// Whether UCP may keep some of the allocation, which is released. From 1.17 to
// 1.20 it notes each release that it hears of until it is called.
bool take_registered(uintptr_t address, size_t length) noexcept;

} // namespace ucx_ib_dmabuf
