// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda.h>

#include "ucm/release.h"

/** The kinds of CUDA calls that bring memory; see release_calls.h. */
namespace ucx_ib_dmabuf {

/** cuMemAlloc, cuMemAllocManaged (with Extra = unsigned). */
template <class... Extra>
struct Allocate {
    using Signature               = CudaResult(uint64_t *, size_t, Extra...);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *address, size_t size,
                          Extra... extra)
    {
        bool outermost;
        const CudaResult result = through_allocation(
            [&] { return driver(address, size, extra...); }, outermost);
        if (outermost && (result == CUDA_OK)) {
            announce_allocation(*address, size, 0, Kept::LISTED);
        }
        return result;
    }
};

/** cuMemAllocPitch. */
struct AllocatePitch {
    using Signature = CudaResult(uint64_t *, size_t *, size_t, size_t,
                                 unsigned);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *address, size_t *pitch,
                          size_t width, size_t height, unsigned element)
    {
        bool outermost;
        const CudaResult result = through_allocation(
            [&] { return driver(address, pitch, width, height, element); },
            outermost);
        if (outermost && (result == CUDA_OK)) {
            announce_allocation(*address, *pitch * height, 0, Kept::LISTED);
        }
        return result;
    }
};

/** After a stream-ordered allocation; in a capture it is graph memory. */
inline void announce_async(uint64_t address, size_t size, uint64_t pool,
                           void *stream)
{
    const auto capturing =
        driver_calls.is_capturing.load(std::memory_order_acquire);
    int status = 0; // CU_STREAM_CAPTURE_STATUS_NONE
    if ((capturing != nullptr) && (capturing(stream, &status) == CUDA_OK) &&
        (status != 0)) {
        note_graph_memory();
    }
    announce_allocation(address, size, pool, Kept::LISTED);
}

/** The default stream is another one in the _ptsz variants. */
template <bool PerThread>
void *stream_of(void *stream)
{
    return (PerThread && (stream == nullptr))
               ? reinterpret_cast<void *>(CUDA_STREAM_PER_THREAD)
               : stream;
}

/** cuMemAllocAsync. */
template <bool PerThread>
struct AllocateAsync {
    using Signature               = CudaResult(uint64_t *, size_t, void *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *address, size_t size,
                          void *stream)
    {
        bool outermost;
        const CudaResult result = through_allocation(
            [&] { return driver(address, size, stream); }, outermost);
        if (outermost && (result == CUDA_OK)) {
            announce_async(*address, size, 0, stream_of<PerThread>(stream));
        }
        return result;
    }
};

/** cuMemAllocFromPoolAsync. */
template <bool PerThread>
struct AllocateFromPool {
    using Signature = CudaResult(uint64_t *, size_t, uint64_t, void *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *address, size_t size,
                          uint64_t pool, void *stream)
    {
        bool outermost;
        const CudaResult result = through_allocation(
            [&] { return driver(address, size, pool, stream); }, outermost);
        if (outermost && (result == CUDA_OK)) {
            announce_async(*address, size, pool, stream_of<PerThread>(stream));
        }
        return result;
    }
};

/** cuMemMap. */
struct Map {
    using Signature = CudaResult(uint64_t, size_t, size_t, uint64_t, uint64_t);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t address, size_t size,
                          size_t offset, uint64_t handle, uint64_t flags)
    {
        const CudaResult result = driver(address, size, offset, handle, flags);
        if (result == CUDA_OK) {
            announce_allocation(address, size, 0, Kept::UNLISTED);
        }
        return result;
    }
};

/** CUipcMemHandle. */
struct IpcHandle {
    char data[64];
};

/** cuIpcOpenMemHandle. */
struct OpenIpc {
    using Signature               = CudaResult(uint64_t *, IpcHandle, unsigned);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *address,
                          IpcHandle handle, unsigned flags)
    {
        const CudaResult result = driver(address, handle, flags);
        if (result == CUDA_OK) {
            announce_allocation(*address, 0, 0, Kept::LISTED);
        }
        return result;
    }
};

/** cuMemPoolImportPointer, cuExternalMemoryGetMappedBuffer. */
struct MapHandle {
    using Signature               = CudaResult(uint64_t *, uint64_t, void *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t *address, uint64_t handle,
                          void *description)
    {
        const CudaResult result = driver(address, handle, description);
        if (result == CUDA_OK) {
            announce_allocation(*address, 0, 0, Kept::LISTED);
        }
        return result;
    }
};

inline void announce_graph_memory(const CUDA_MEM_ALLOC_NODE_PARAMS &params)
{
    note_graph_memory();
    announce_allocation(params.dptr, params.bytesize, 0, Kept::LISTED);
}

/** cuGraphAddMemAllocNode. */
struct AddAllocNode {
    using Signature = CudaResult(void *, void *, const void *, size_t,
                                 CUDA_MEM_ALLOC_NODE_PARAMS *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, void *node, void *graph,
                          const void *dependencies, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS *params)
    {
        const CudaResult result =
            driver(node, graph, dependencies, count, params);
        if (result == CUDA_OK) {
            announce_graph_memory(*params);
        }
        return result;
    }
};

#if CUDA_VERSION >= 12020
/** cuGraphAddNode. */
template <class... Edges>
struct AddNode {
    using Signature = CudaResult(void *, void *, const void *, Edges..., size_t,
                                 CUgraphNodeParams *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, void *node, void *graph,
                          const void *dependencies, Edges... edges,
                          size_t count, CUgraphNodeParams *params)
    {
        const CudaResult result =
            driver(node, graph, dependencies, edges..., count, params);
        if ((result == CUDA_OK) &&
            (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)) {
            note_graph_memory();
            announce_allocation(params->alloc.dptr, params->alloc.bytesize, 0,
                                Kept::LISTED);
        }
        return result;
    }
};
#endif

} // namespace ucx_ib_dmabuf
