// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "release.h"
#include <utility>

namespace ucx_ib_dmabuf::ucm {

// Hook functions for one kind of call. Each hooked function needs its own slot,
// which stores the address of its original.
struct hook_kind {
    struct slot {
        void *hook;
        std::atomic<void *> *original;
    };
    static constexpr size_t max_slots = 12;

    // Returns nullptr if all are used. Like `used`, needs the installer's lock.
    const slot *next_slot() const
    {
        return (used < max_slots) ? &slots[used] : nullptr;
    }

    slot slots[max_slots];
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
        return Call::run(next, args...);
    }

    template <size_t... slot>
    static hook_kind make(std::index_sequence<slot...>)
    {
        return {{{reinterpret_cast<void *>(&hook<slot>), &original<slot>}...}};
    }
};

// Returns the kind of a struct with
//     using signature = cuda_result(...);
//     static cuda_result run(signature *next, ...);
template <class Call>
hook_kind &kind_of()
{
    static hook_kind kind = hooks_of<Call, typename Call::signature>::make(
        std::make_index_sequence<hook_kind::max_slots>());
    return kind;
}

} // namespace ucx_ib_dmabuf::ucm
