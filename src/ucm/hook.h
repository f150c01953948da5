// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "ucm/release.h"

/**
 * Hook functions. A kind of call (release_calls.h, allocate_calls.h) is a
 * struct with using Signature = CudaResult(...); static CudaResult
 * run(Signature *driver, ...); static constexpr bool REFUSES;  // the driver
 * refuses the probe Each hooked function needs a hook of its own, which knows
 * the way on to that function: a kind has several slots.
 */
namespace ucx_ib_dmabuf {

template <class Call, class Signature, size_t Slot>
struct HookSlot;

template <class Call, class... Args, size_t Slot>
struct HookSlot<Call, CudaResult(Args...), Slot> {
    static inline std::atomic<void *> original{nullptr};

    static CudaResult run(Args... args)
    {
        const auto driver = reinterpret_cast<CudaResult (*)(Args...)>(
            original.load(std::memory_order_acquire));
        if (__builtin_expect(hook_thread.probing, false)) {
            // The first: an old entry point may lead to a newer, hooked one.
            if (hook_thread.seen == nullptr) {
                hook_thread.seen = reinterpret_cast<const void *>(&run);
            }
            return Call::REFUSES ? driver(args...) : CUDA_INVALID_VALUE;
        }
        return Call::run(driver, args...);
    }
};

/** A kind of call, without its type. */
struct HookKind {
    struct Slot {
        void *hook;
        std::atomic<void *> *original;
    };

    const Slot *slots;
    size_t count;
    size_t *used; /**< slots taken; under the installer's lock */

    /** Call a function with arguments that mean nothing: 0 and device -2. */
    void (*probe)(void *function);
};

template <class Call, class Signature>
struct HookKindOf;

template <class Call, class... Args>
struct HookKindOf<Call, CudaResult(Args...)> {
    static constexpr size_t SLOTS = 12;

    template <size_t... I>
    static auto make(std::index_sequence<I...>)
    {
        return std::array<HookKind::Slot, SLOTS>{HookKind::Slot{
            reinterpret_cast<void *>(
                &HookSlot<Call, CudaResult(Args...), I>::run),
            &HookSlot<Call, CudaResult(Args...), I>::original}...};
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

    static void probe(void *function)
    {
        reinterpret_cast<CudaResult (*)(Args...)>(function)(nothing<Args>()...);
    }
};

template <class Call>
const HookKind &hook_kind()
{
    using Kind = HookKindOf<Call, typename Call::Signature>;
    static const auto slots =
        Kind::make(std::make_index_sequence<Kind::SLOTS>());
    static size_t used = 0;
    static const HookKind kind{slots.data(), slots.size(), &used, &Kind::probe};
    return kind;
}

} // namespace ucx_ib_dmabuf
