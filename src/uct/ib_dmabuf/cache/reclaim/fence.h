// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CACHE_RECLAIM_FENCE_H_
#define UCX_IB_DMABUF_CACHE_RECLAIM_FENCE_H_

#include "steps.h"

// A pair of fences of which one side pays for both: what full fences on both
// sides would order, `light` and `heavy` order as well. Either the light side's
// load after its fence sees the heavy side's store before its own, or the heavy
// side's load sees the light side's store. Light costs nothing: heavy makes the
// kernel run a fence on every CPU that runs a thread of the process
// (membarrier(2)). Where the kernel does not, light is a full fence.
namespace ucx_ib_dmabuf::fence {

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define UCX_IB_DMABUF_TSAN 1
#endif

// ThreadSanitizer knows neither membarrier nor fences: under it the accesses
// on both sides are sequentially consistent, and the fences are empty.
#ifdef UCX_IB_DMABUF_TSAN
constexpr std::memory_order load_order  = std::memory_order_seq_cst;
constexpr std::memory_order store_order = std::memory_order_seq_cst;
#else
constexpr std::memory_order load_order  = std::memory_order_acquire;
constexpr std::memory_order store_order = std::memory_order_release;
#endif

// Whether the kernel helps. Decided once, before the first thread needs it.
extern steps::constant<bool> asymmetric;

// All that `light` is where the kernel helps.
inline void light_if_asymmetric()
{
#ifndef UCX_IB_DMABUF_TSAN
    steps::compiler_fence();
#endif
}

inline void light()
{
#ifndef UCX_IB_DMABUF_TSAN
    if (asymmetric) [[likely]] {
        steps::compiler_fence();
    } else {
        steps::full_fence();
    }
#endif
}

void heavy();

} // namespace ucx_ib_dmabuf::fence

#endif
