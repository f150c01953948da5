// SPDX-License-Identifier: BSD-3-Clause
#include "context.h"
#include "../compat.h"
#include "../cuda_sim.h"
#include "calls.h"
#include "settings.h"

#include <cstdlib>
#include <pthread.h>
#include <sys/mman.h>

namespace ucx_ib_dmabuf::sim {
namespace {

struct Stack {
    static constexpr int limit = 64;
    CUcontext at[limit];
    int depth;
};
thread_local constinit Stack stack{};

CUresult create(CUcontext *out, unsigned flags, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!valid_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (stack.depth == Stack::limit)
        return CUDA_ERROR_OUT_OF_MEMORY;
    std::lock_guard guard(memory().lock);
    auto *context  = new CUctx_st(device, false);
    context->id    = ++contexts().last_id;
    context->flags = flags;
    context->alive = true;
    contexts().all.insert(context);
    stack.at[stack.depth++] = context;
    *out                    = context;
    return CUDA_SUCCESS;
}

CUresult destroy(CUcontext context)
{
    std::lock_guard guard(memory().lock);
    if (!is_context(context) || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    release_resources(context);
    if (current_context() == context)
        --stack.depth;
    return CUDA_SUCCESS;
}

CUresult push(CUcontext context)
{
    std::shared_lock guard(memory().lock);
    if (!is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
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

} // namespace

Contexts &contexts()
{
    static Contexts &all = *new Contexts();
    return all;
}

Contexts::Contexts()
{
    for (uint64_t i = 0; i < settings().devices; ++i) {
        primary.push_back(new CUctx_st(int(i), true));
        all.insert(primary.back());
    }
}

CUcontext current_context()
{
    return stack.depth ? stack.at[stack.depth - 1] : nullptr;
}

CUresult need_context(CUcontext *context)
{
    *context = current_context();
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return (*context)->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult need_context_of(int device, CUresult otherwise)
{
    CUcontext context;
    if (!settings().needs_context)
        return CUDA_SUCCESS;
    if (CUresult error = need_context(&context))
        return error;
    return context->device == device ? CUDA_SUCCESS : otherwise;
}

CUresult unknown_address(CUdeviceptr address, CUresult otherwise)
{
    CUcontext context = current_context();
    return memory().is_gone(address) || (context && !context->alive)
               ? settings().gone
               : otherwise;
}

bool is_context(CUcontext context)
{
    return contexts().all.count(context) != 0;
}

void release_resources(CUcontext context)
{
    auto note = [](const Block &block) {
        memory().gone[block.base] = block.size;
    };
    context->alive = false;
    destroy_streams(context);
    context->heap.each_block(note);
    context->heap.clear();
    for (Block *block : context->blocks) {
        note(*block);
        memory().remove_block(block);
    }
    context->blocks.clear();
    std::erase_if(memory().host, [context](auto &one) {
        const Allocation &allocation = one.second;
        const bool gone              = allocation.context == context;
        if (gone && allocation.kind != Kind::registered)
            munmap(reinterpret_cast<void *>(allocation.base),
                   round_up(allocation.size, 4096));
        return gone;
    });
}

bool valid_device(CUdevice device)
{
    return device >= 0 && uint64_t(device) < settings().devices;
}

} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

SIM_ENTRY_ANYTIME(cuInit, unsigned flags)
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

SIM_ENTRY_IS(cuCtxCreate_v2, create(out, flags, device), CUcontext *out,
             unsigned flags, CUdevice device)
SIM_ENTRY_IS(cuCtxCreate_v3, create(out, flags, device), CUcontext *out,
             CUexecAffinityParam *, int, unsigned flags, CUdevice device)
SIM_ENTRY_IS(cuCtxCreate_v4, create(out, flags, device), CUcontext *out,
             CUctxCreateParams *, unsigned flags, CUdevice device)

// The real library keeps these names for old programs.
#undef cuCtxDestroy
#undef cuCtxPushCurrent
#undef cuCtxPopCurrent
SIM_ENTRY_BOTH(cuCtxDestroy, _v2, destroy(context), CUcontext context)
SIM_ENTRY_BOTH(cuCtxPushCurrent, _v2, push(context), CUcontext context)
SIM_ENTRY_BOTH(cuCtxPopCurrent, _v2, pop(out), CUcontext *out)
SIM_ENTRY_IS(cuCtxDetach, destroy(context), CUcontext context)

SIM_ENTRY(cuCtxSetCurrent, CUcontext context)
{
    if (!context) {
        if (stack.depth)
            --stack.depth;
        return CUDA_SUCCESS;
    }
    std::shared_lock guard(memory().lock);
    if (!is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (!stack.depth)
        ++stack.depth;
    stack.at[stack.depth - 1] = context;
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuCtxGetCurrent, CUcontext *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = current_context();
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuCtxGetDevice, CUdevice *out)
{
    CUcontext context;
    if (CUresult error = need_context(&context))
        return error;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = context->device;
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuCtxGetId, CUcontext context, unsigned long long *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!context) {
        if (CUresult error = need_context(&context))
            return error;
    }
    std::shared_lock guard(memory().lock);
    if (!is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!context->alive)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    *out = context->id;
    return CUDA_SUCCESS;
}

SIM_ENTRY(cuCtxGetFlags, unsigned *out)
{
    CUcontext context;
    CUresult result = need_context(&context);
    if (result == CUDA_SUCCESS)
        *out = context->flags;
    return result;
}
