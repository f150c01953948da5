// SPDX-License-Identifier: BSD-3-Clause
#include "ucm.h"
#include "library.h"
#include "settings.h"
#include <array>
#include <atomic>
#include <mutex>

namespace ucx_ib_dmabuf {
namespace {

std::array<const ucm_functions *, max_instances> known;
std::atomic<size_t> known_count;

// Returns nullptr in a UCX without that setting.
template <class Field>
const Field *find_option(const char *options, const config_parser &ucs,
                         const char *name)
{
    config_parser::ucx_setting setting;

    return ucs.find_setting("UCM", name, &setting)
               ? reinterpret_cast<const Field *>(options + setting.offset)
               : nullptr;
}

} // namespace

const char *look_up_ucm(const library &ucx, const config_parser &ucs,
                        ucm_functions *out)
{
    symbols in(ucx);
    const char *options      = nullptr;
    const char *const *names = nullptr;

    in.find("ucm_event_dispatch", &out->event_dispatch);
    in.find("ucm_event_enter", &out->event_enter);
    in.find("ucm_event_leave", &out->event_leave);
    in.find("ucm_set_event_handler", &out->set_event_handler);
    in.find_variable("ucm_event_installer_list", &out->event_installer_list);
    in.find_variable("ucm_global_opts", &options);
    in.find_variable("ucs_memory_type_names", &names);
    if (in.missing() != nullptr) {
        return in.missing();
    }
    const char *first = nullptr;
    if (!read_memory(names, &first) || (first == nullptr)) {
        return "names of memory types";
    }
    // UCX_MEM_EVENTS, and bits of ucm_mmap_hook_mode_t. These are an int in
    // ucm_global_config_t, from 1.18 a 64-bit integer behind it; UCS knows its
    // offset. The old place must not be read: from 1.18 it is padding, which
    // ucs_global_opts_init() fills with the contents of its stack.
    const auto *events = find_option<int>(options, ucs, "EVENTS");
    const auto *modes  = find_option<uint32_t>(options, ucs, "CUDA_HOOK_MODE");
    if (modes == nullptr) {
        return "UCX_MEM_CUDA_HOOK_MODE";
    }
    out->hook_by_bistro =
        ((events == nullptr) || (*events != 0)) && ((*modes & (1u << 2)) != 0);
    // The last name is the unknown type's; a null follows.
    uint32_t last = 0;
    while (names[last + 1] != nullptr) {
        ++last;
    }
    out->unknown_type = static_cast<ucs_memory_type_t>(last);
    return nullptr;
}

void add_ucm(const ucm_functions &added) noexcept
{
    static std::mutex mutex;
    const std::lock_guard<std::mutex> guard(mutex);
    const size_t count = known_count.load(std::memory_order_relaxed);

    known[count] = &added;
    known_count.store(count + 1, std::memory_order_release);
}

std::span<const ucm_functions *const> all_ucm() noexcept
{
    return {known.data(), known_count.load(std::memory_order_acquire)};
}

} // namespace ucx_ib_dmabuf
