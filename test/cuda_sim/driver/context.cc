// SPDX-License-Identifier: BSD-3-Clause
#include "context.h"
#include "../compat.h"
#include "../cuda_sim.h"
#include "calls.h"
#include "machine.h"

#include <algorithm>
#include <cstdlib>
#include <pthread.h>
#include <sys/mman.h>

namespace ucx_ib_dmabuf::sim {
namespace {

// All contexts ever made. Requires the lock of Memory.
struct Contexts {
    Contexts()
    {
        for (uint64_t i = 0; i < settings().devices; ++i) {
            primary.push_back(new CUctx_st(int(i)));
            all.insert(primary.back());
        }
    }

    std::set<CUcontext> all;
    std::vector<CUcontext> primary; // by device
    uint64_t last_id = 0;
};

Contexts &contexts()
{
    static Contexts &all = *new Contexts();
    return all;
}

CUcontext primary(CUdevice device)
{
    return contexts().primary[size_t(device)];
}

struct Stack {
    static constexpr int limit = 64;
    CUcontext at[limit];
    int depth;
};
thread_local constinit Stack stack{};

// Requires the lock of Memory.
CUresult check_context(CUcontext context)
{
    if (!contexts().all.count(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

void begin(CUcontext context)
{
    context->id    = ++contexts().last_id;
    context->alive = true;
}

// Ends a context and frees all that was allocated in it. Pool memory and VMM
// memory belong to the device.
void end(CUcontext context)
{
    context->alive = false;
    destroy_streams(context);
    auto &blocks = memory().blocks;
    context->heap.clear();
    for (auto one = blocks.begin(); one != blocks.end();) {
        Block &block = one++->second;
        if (block.context == context)
            memory().remove_block(&block);
    }
    std::erase_if(memory().allocations, [context](auto &one) {
        const Allocation &allocation = one.second;
        const bool gone              = allocation.context == context;
        if (gone && allocation.kind != Kind::registered)
            munmap(reinterpret_cast<void *>(allocation.base),
                   round_up(allocation.size, host_page()));
        return gone;
    });
}

CUresult create(CUcontext *out, unsigned flags, CUdevice device)
{
    if (CUresult error = check(out, device))
        return error;
    if (stack.depth == Stack::limit)
        return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard guard(memory().lock);
    *out = stack.at[stack.depth++] = new CUctx_st(device);
    (*out)->flags                  = flags;
    contexts().all.insert(*out);
    begin(*out);
    return CUDA_SUCCESS;
}

CUresult destroy(CUcontext context)
{
    std::lock_guard guard(memory().lock);
    const auto &primaries = contexts().primary;
    if (std::count(primaries.begin(), primaries.end(), context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (CUresult error = check_context(context))
        return error;
    end(context);
    if (current_context() == context)
        --stack.depth;
    return CUDA_SUCCESS;
}

CUresult push(CUcontext context)
{
    std::shared_lock guard(memory().lock);
    if (CUresult error = check_context(context))
        return error;
    if (stack.depth == Stack::limit)
        return CUDA_ERROR_INVALID_VALUE;
    stack.at[stack.depth++] = context;
    return CUDA_SUCCESS;
}

CUresult pop(CUcontext *out)
{
    if (!stack.depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUcontext context = stack.at[--stack.depth];
    if (out)
        *out = context;
    return CUDA_SUCCESS;
}

CUresult release_primary(CUdevice device)
{
    if (CUresult error = check(true, device))
        return error;
    std::lock_guard guard(memory().lock);
    CUcontext context = primary(device);
    if (!context->retained)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--context->retained == 0)
        end(context);
    return CUDA_SUCCESS;
}

// References are kept; the next retain revives the context.
CUresult reset_primary(CUdevice device)
{
    if (CUresult error = check(true, device))
        return error;
    std::lock_guard guard(memory().lock);
    end(primary(device));
    clear_pools(device);
    return CUDA_SUCCESS;
}

} // namespace

CUcontext current_context()
{
    return stack.depth ? stack.at[stack.depth - 1] : nullptr;
}

CUresult need_context()
{
    CUcontext context = current_context();
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult need_context_of(int device, CUresult otherwise)
{
    if (CUresult error = need_context())
        return error;
    return current_context()->device == device ? CUDA_SUCCESS : otherwise;
}

bool valid_device(CUdevice device)
{
    return device >= 0 && uint64_t(device) < settings().devices;
}

CUresult check(bool arguments, CUdevice device)
{
    return !arguments             ? CUDA_ERROR_INVALID_VALUE
           : valid_device(device) ? CUDA_SUCCESS
                                  : CUDA_ERROR_INVALID_DEVICE;
}

} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY(anytime, cuInit, unsigned flags)
{
    if (flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (state == State::forked || state == State::finished)
        return state_error();
    if (settings().devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    static std::once_flag once;
    std::call_once(once, [] {
        // Opens the permanent descriptors now, so that tests can count the
        // temporary ones.
        memory();
        cuda_sim_dmabuf_is_real();
        contexts();
        pthread_atfork(nullptr, nullptr, [] {
            if (state == State::ready)
                state = State::forked;
        });
        // As with the real driver, later exit handlers find the driver gone.
        atexit([] {
            if (state == State::ready)
                state = State::finished;
        });
        state = State::ready;
    });
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(driver, cuCtxCreate_v2, create(out, flags, device), CUcontext *out,
             unsigned flags, CUdevice device)
SIM_ENTRY_IS(driver, cuCtxCreate_v3, create(out, flags, device), CUcontext *out,
             CUexecAffinityParam *, int, unsigned flags, CUdevice device)
SIM_ENTRY_IS(driver, cuCtxCreate_v4, create(out, flags, device), CUcontext *out,
             CUctxCreateParams *, unsigned flags, CUdevice device)

// The real library keeps these names for old programs.
#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
#undef cuDevicePrimaryCtxRelease
#undef cuDevicePrimaryCtxReset
// clang-format off
SIM_ENTRY_BOTH(driver, cuCtxDestroy, _v2, destroy(context), CUcontext context)
SIM_ENTRY_BOTH(driver, cuCtxPushCurrent, _v2, push(context), CUcontext context)
SIM_ENTRY_BOTH(driver, cuCtxPopCurrent, _v2, pop(out), CUcontext *out)
SIM_ENTRY_IS(driver, cuCtxDetach, destroy(context), CUcontext context)
SIM_ENTRY_BOTH(driver, cuDevicePrimaryCtxRelease, _v2, release_primary(device),
               CUdevice device)
SIM_ENTRY_BOTH(driver, cuDevicePrimaryCtxReset, _v2, reset_primary(device),
               CUdevice device)
// clang-format on

SIM_ENTRY(driver, cuDevicePrimaryCtxRetain, CUcontext *out, CUdevice device)
{
    if (CUresult error = check(out, device))
        return error;
    std::lock_guard guard(memory().lock);
    *out = primary(device);
    if ((*out)->retained++ == 0 || !(*out)->alive)
        begin(*out);
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuDevicePrimaryCtxGetState, CUdevice device, unsigned *flags,
          int *active)
{
    if (CUresult error = check(flags && active, device))
        return error;
    std::shared_lock guard(memory().lock);
    *flags  = primary(device)->flags;
    *active = primary(device)->alive;
    return CUDA_SUCCESS;
}

SIM_ENTRY(driver, cuCtxSetCurrent, CUcontext context)
{
    if (!context) {
        if (stack.depth)
            --stack.depth;
        return CUDA_SUCCESS;
    }
    std::shared_lock guard(memory().lock);
    if (CUresult error = check_context(context))
        return error;
    if (!stack.depth)
        ++stack.depth;
    stack.at[stack.depth - 1] = context;
    return CUDA_SUCCESS;
}

SIM_ENTRY_IS(driver, cuCtxGetCurrent, give(out, current_context()),
             CUcontext *out)
SIM_ENTRY_IS(context, cuCtxGetDevice, give(out, current_context()->device),
             CUdevice *out)
SIM_ENTRY_IS(context, cuCtxGetFlags, give(out, current_context()->flags),
             unsigned *out)
SIM_ENTRY_IS(context, cuCtxSetFlags, give(&current_context()->flags, flags),
             unsigned flags)

SIM_ENTRY(driver, cuCtxGetId, CUcontext context, unsigned long long *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    std::shared_lock guard(memory().lock);
    if (CUresult error = context ? check_context(context) : need_context())
        return error;
    *out = (context ? context : current_context())->id;
    return CUDA_SUCCESS;
}
