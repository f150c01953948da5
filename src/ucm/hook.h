// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "release.h"
#include <type_traits>
#include <utility>

namespace ucx_ib_dmabuf::ucm {

// Hook functions for one kind of call. Each hooked function needs a hook of its
// own, which knows the way on to that function: a kind has several slots.
struct hook_kind {
    struct slot {
        void *hook;
        std::atomic<void *> *original;
    };
    static constexpr size_t max_slots = 12;

    // Null if all are taken. Under the installer's lock, as is `used`.
    const slot *next_slot() const
    {
        return (used < max_slots) ? &slots[used] : nullptr;
    }

    slot slots[max_slots];
    // Calls a function with arguments that mean nothing: 0 and device -2.
    void (*probe)(void *function);
    size_t used = 0;
};

template <class Call, class Signature>
struct hooks_of;

template <class Call, class... Args>
struct hooks_of<Call, cuda_result(Args...)> {
    using function = cuda_result(Args...);

    template <size_t slot>
    static inline std::atomic<void *> original{nullptr};

    template <size_t slot>
    static cuda_result hook(Args... args)
    {
        const auto next = reinterpret_cast<function *>(original<slot>.load());
        if (__builtin_expect(this_thread.probing, false)) {
            // The first: an old entry point may lead to a newer, hooked one.
            if (this_thread.seen == nullptr) {
                this_thread.seen = reinterpret_cast<const void *>(&hook<slot>);
            }
            return Call::refuses ? next(args...) : cuda_invalid_value;
        }
        return Call::run(next, args...);
    }

    template <size_t... slot>
    static hook_kind make(std::index_sequence<slot...>)
    {
        return {{{reinterpret_cast<void *>(&hook<slot>), &original<slot>}...},
                probe};
    }

    static void probe(void *address)
    {
        reinterpret_cast<function *>(address)(nothing<Args>()...);
    }

    template <class Arg>
    static constexpr Arg nothing()
    {
        if constexpr (std::is_same_v<Arg, int>) {
            return -2; // CU_DEVICE_INVALID; -1 is the processor
        } else {
            return Arg{};
        }
    }
};

// The kind that belongs to a struct with
//     using signature = cuda_result(...);
//     static cuda_result run(signature *next, ...);
//     static constexpr bool refuses;
// `refuses`: the driver answers the probe's arguments with an error, or with
// success without doing anything, so that the probe may enter it. Never so in
// the runtime, where every call may create a context.
template <class Call>
hook_kind &kind_of()
{
    static hook_kind kind = hooks_of<Call, typename Call::signature>::make(
        std::make_index_sequence<hook_kind::max_slots>());
    return kind;
}

} // namespace ucx_ib_dmabuf::ucm
