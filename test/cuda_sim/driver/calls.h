// SPDX-License-Identifier: BSD-3-Clause
//
// Every call of an entry point passes through here: it is counted, and can be
// made to fail or to take time.
#pragma once

#include "../entry.h"

#include <atomic>
#include <cstdint>
#include <cuda.h>
#include <tuple>
#include <type_traits>

namespace ucx_ib_dmabuf::sim {

enum class State : int {
    unused,   // before cuInit
    ready,    // after it
    forked,   // in a child of a process that had called cuInit
    finished, // the process is exiting
};

extern std::atomic<State> state;

// In stream.cc: how many streams capture, and a call's result meanwhile;
// whether the calling thread can use a stream, which exists or is a default
// one.
extern std::atomic<int> captures;
CUresult capture_check(const char *name);
CUresult need_stream(CUstream stream);

// In context.cc: whether the calling thread has a current context that exists.
CUresult need_context();

// Returns the error of a call that needs an initialised driver.
CUresult state_error();

// Conditions for a call, each including the one before.
enum class Needs {
    anytime, // nothing, also before cuInit
    driver,  // an initialised driver
    context, // a current context
    stream,  // that can use the CUstream among the arguments
};

// An entry point. It is constant-initialised, so that calls are counted from
// the first one on, and never destroyed.
struct Call {
    const char *const name;
    const Needs needs;
    std::atomic<uint64_t> count{0};
    std::atomic<bool> armed{false}; // the plan's lock guards the rest
    uint64_t base  = 0;
    uint64_t first = 0, last = 0; // calls since 'base' that fail
    CUresult error      = CUDA_SUCCESS;
    uint64_t delay_usec = 0;

    constexpr Call(const char *its_name, Needs its_needs)
        : name(its_name), needs(its_needs)
    {
    }

    // Counts a call. Returns its error if the body must not run.
    CUresult enter()
    {
        uint64_t number = count.fetch_add(1, std::memory_order_relaxed) + 1;
        if (armed.load(std::memory_order_relaxed)) [[unlikely]] {
            CUresult result = planned(number);
            if (result != CUDA_SUCCESS)
                return result;
        }
        if (state.load(std::memory_order_acquire) != State::ready &&
            needs != Needs::anytime) [[unlikely]]
            return refused();
        if (captures.load(std::memory_order_relaxed)) [[unlikely]] {
            CUresult result = capture_check(name);
            if (result != CUDA_SUCCESS)
                return result;
        }
        return needs == Needs::context ? need_context() : CUDA_SUCCESS;
    }

private:
    CUresult planned(uint64_t number);
    CUresult refused() const; // the error if not ready
};

// Stores the result of a query.
template <typename T>
CUresult give(T *out, std::type_identity_t<T> value)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = value;
    return CUDA_SUCCESS;
}

// As in cuda_sim_counters_t.
extern std::atomic<uint64_t> copied_bytes, exports;

template <Call *call, auto body>
struct Entry;
template <Call *call, typename... A, CUresult (*body)(A...)>
struct Entry<call, body> {
    static CUresult run(A... arguments)
    {
        CUresult result = call->enter();
        if constexpr ((std::is_same_v<A, CUstream> || ...)) {
            if (result == CUDA_SUCCESS && call->needs == Needs::stream)
                result =
                    need_stream(std::get<CUstream &>(std::tie(arguments...)));
        }
        return result == CUDA_SUCCESS ? body(arguments...) : result;
    }
};

} // namespace ucx_ib_dmabuf::sim

// Defines the entry point _name with these parameters; its body follows. A call
// is counted and checked before the body runs. A pointer to the Call is put
// into a section of its own: that is the list of all calls.
#define SIM_ENTRY(_needs, _name, ...)                                          \
    static CUresult body_##_name(__VA_ARGS__);                                 \
    static constinit ucx_ib_dmabuf::sim::Call call_##_name{                    \
        #_name, ucx_ib_dmabuf::sim::Needs::_needs};                            \
    __attribute__((                                                            \
        section("sim_calls"),                                                  \
        used)) static ucx_ib_dmabuf::sim::Call *const listed_##_name =         \
        &call_##_name;                                                         \
    extern "C" {                                                               \
    extern SIM_HIDDEN CUresult (*const sim_ptr_##_name)(__VA_ARGS__);          \
    __attribute__((used)) CUresult (*const sim_ptr_##_name)(__VA_ARGS__) =     \
        ucx_ib_dmabuf::sim::Entry<&call_##_name, &body_##_name>::run;          \
    }                                                                          \
    SIM_TRAMPOLINE(_name)                                                      \
    static CUresult body_##_name(__VA_ARGS__)

// An entry point that is an expression, mostly an error.
#define SIM_ENTRY_IS(_needs, _name, _result, ...)                              \
    SIM_ENTRY(_needs, _name, __VA_ARGS__)                                      \
    {                                                                          \
        return _result;                                                        \
    }

// Two entry points with the same result: the second one's name ends in _other.
#define SIM_ENTRY_BOTH(_needs, _name, _other, _result, ...)                    \
    SIM_ENTRY_IS(_needs, _name, _result, __VA_ARGS__)                          \
    SIM_ENTRY_IS(_needs, _name##_other, _result, __VA_ARGS__)
