// SPDX-License-Identifier: BSD-3-Clause
#include "ucm.h"
#include "library.h"
#include "look_up.h"
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>

namespace ucx_ib_dmabuf {
namespace {

std::array<const ucm_functions *, 16> known;
std::atomic<size_t> known_count;

// Bits of ucm_mmap_hook_mode_t in ucm_global_config_t's cuda_hook_modes: an
// int@20, from 1.18 a 64-bit integer@24. Where the latter is, 20 is padding,
// which is 0; where the former is 0, a switch follows, which has none of the
// bits.
uint64_t cuda_hook_modes(const char *options)
{
    uint32_t before;
    uint64_t after;

    memcpy(&before, options + 20, sizeof(before));
    memcpy(&after, options + 24, sizeof(after));
    return (before != 0) ? before : after;
}

// The last of the types' names is the unknown's, and a null follows.
ucs_memory_type_t unknown_type(const char *const *names)
{
    uint32_t type = 0;

    while (names[type + 1] != nullptr) {
        ++type;
    }
    return static_cast<ucs_memory_type_t>(type);
}

} // namespace

const char *look_up_ucm(const library &ucx, ucm_functions *out)
{
    look_up in(ucx);
    const char *options      = nullptr;
    const char *const *names = nullptr;

    in.find("ucm_event_dispatch", &out->event_dispatch);
    in.find("ucm_event_enter", &out->event_enter);
    in.find("ucm_event_leave", &out->event_leave);
    in.find("ucm_set_event_handler", &out->set_event_handler);
    in.find("ucm_reloc_modify", &out->reloc_modify);
    in.find_variable("ucm_event_installer_list", &out->event_installer_list);
    in.find_variable("ucm_global_opts", &options);
    in.find_variable("ucs_memory_type_names", &names);
    if (in.missing() == nullptr) {
        const char *first = nullptr;
        if (!read_memory(names, &first) || (first == nullptr)) {
            return "names of memory types";
        }
        const uint64_t modes    = cuda_hook_modes(options);
        out->hook_by_relocation = (modes & (1u << 1)) != 0;
        out->hook_by_bistro     = (modes & (1u << 2)) != 0;
        out->unknown_type       = unknown_type(names);
    }
    return in.missing();
}

bool add_ucm(const ucm_functions &added) noexcept
{
    static std::mutex mutex;
    const std::lock_guard<std::mutex> guard(mutex);
    const size_t count = known_count.load(std::memory_order_relaxed);

    if (count == known.size()) {
        return false;
    }
    known[count] = &added;
    known_count.store(count + 1, std::memory_order_release);
    return true;
}

std::span<const ucm_functions *const> all_ucm() noexcept
{
    return {known.data(), known_count.load(std::memory_order_acquire)};
}

} // namespace ucx_ib_dmabuf
