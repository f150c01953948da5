// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "ucm/primaries.h"
#include "ucm/release.h"

/**
 * The kinds of CUDA calls that release memory, and how much of it.
 * Handles and pointers are passed as they are, so that the driver API and the
 * runtime API look alike.
 *
 * REFUSES: the driver answers the probe's arguments (null, device -2) with an
 * error, or with success without doing anything, so that the probe may enter
 * the driver. Never so in the runtime, where every call may create a context.
 */
namespace ucx_ib_dmabuf {

/** cuMemFree and everything else that takes one pointer. */
template <bool Driver, ucs_memory_type_t Type = UCS_MEMORY_TYPE_CUDA>
struct FreePointer {
    using Signature               = CudaResult(uint64_t);
    static constexpr bool REFUSES = Driver;

    static CudaResult run(Signature *driver, uint64_t address)
    {
        Release release;
        release.pointer(address, Type);
        return release.through([&] { return driver(address); });
    }
};

/** cuIpcCloseMemHandle: only the last of many takes the memory away. */
template <bool Driver>
struct CloseIpc {
    using Signature               = CudaResult(uint64_t);
    static constexpr bool REFUSES = Driver;

    static CudaResult run(Signature *driver, uint64_t address)
    {
        Release release;
        release.opening(address);
        return release.through([&] { return driver(address); });
    }
};

/** cuMemFreeAsync: announced when called, as the memory's user is done. */
struct FreeAsync {
    using Signature               = CudaResult(uint64_t, void *);
    static constexpr bool REFUSES = false; // touches the default stream

    static CudaResult run(Signature *driver, uint64_t address, void *stream)
    {
        Release release;
        release.to_pool(address);
        return release.through([&] { return driver(address, stream); });
    }
};

/** cuMemUnmap, cuMemAddressFree. */
struct FreeRange {
    using Signature               = CudaResult(uint64_t, size_t);
    static constexpr bool REFUSES = true;

    static CudaResult run(Signature *driver, uint64_t address, size_t size)
    {
        Release release;
        release.range(address, size);
        return release.through([&] { return driver(address, size); });
    }
};

/** cuMemPoolDestroy, cuModuleUnload: what is left of a handle's memory goes. */
struct DestroyOwner {
    using Signature               = CudaResult(uint64_t);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t owner)
    {
        Release release;
        release.owned(owner);
        return release.through([&] { return driver(owner); });
    }
};

/** cuMemPoolTrimTo. */
struct TrimPool {
    using Signature               = CudaResult(uint64_t, size_t);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, uint64_t pool, size_t keep)
    {
        Release release;
        release.owned(pool);
        return release.through([&] { return driver(pool, keep); });
    }
};

/** cuCtxDestroy and others that end much at once. */
struct DestroyContext {
    using Signature               = CudaResult(void *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, void *context)
    {
        Release release;
        release.everything();
        return release.through([&] { return driver(context); });
    }
};

/** cuDevicePrimaryCtxReset. */
struct ResetPrimary {
    using Signature               = CudaResult(int);
    static constexpr bool REFUSES = false; // too much would go if it did not

    static CudaResult run(Signature *driver, int device)
    {
        Release release;
        release.everything();
        return release.through([&] { return driver(device); });
    }
};

/**
 * cuDevicePrimaryCtxRelease: only the last of many destroys the context, and
 * nobody can tell which that will be. So this one is announced afterwards.
 */
struct ReleasePrimary {
    using Signature               = CudaResult(int);
    static constexpr bool REFUSES = true;

    static CudaResult run(Signature *driver, int device)
    {
        Release release;
        const CudaResult result =
            release.through([&] { return driver(device); });
        if ((result == CUDA_OK) && !primary_is_active(device, false)) {
            announce_primary_gone(device);
        }
        return result;
    }
};

/** cuDevicePrimaryCtxRetain: how each runtime begins. */
struct RetainPrimary {
    using Signature               = CudaResult(void *, int);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, void *context, int device)
    {
        const bool was_active   = primary_is_active(device, true);
        const CudaResult result = driver(context, device);
        if ((result == CUDA_OK) && !was_active) {
            note_new_primary(device);
        }
        runtimes_may_be_new.store(true, std::memory_order_release);
        return result;
    }
};

/** cudaDeviceReset. */
struct ResetDevice {
    using Signature               = CudaResult();
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver)
    {
        Release release;
        release.everything();
        return release.through([&] { return driver(); });
    }
};

/** cuGraphExecDestroy: of concern only where graphs allocate memory. */
struct DestroyGraph {
    using Signature               = CudaResult(void *);
    static constexpr bool REFUSES = false;

    static CudaResult run(Signature *driver, void *graph)
    {
        if (!graph_memory_noted()) {
            return driver(graph);
        }
        return DestroyContext::run(driver, graph);
    }
};

/** cuDeviceGraphMemTrim. */
struct TrimGraphs {
    using Signature               = CudaResult(int);
    static constexpr bool REFUSES = true;

    static CudaResult run(Signature *driver, int device)
    {
        if (!graph_memory_noted()) {
            return driver(device);
        }
        return ResetPrimary::run(driver, device);
    }
};

} // namespace ucx_ib_dmabuf
