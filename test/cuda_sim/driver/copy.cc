// SPDX-License-Identifier: BSD-3-Clause
//
// Copies and memset. Asynchronous ones are complete when the call returns.
#include "../compat.h"
#include "calls.h"
#include "context.h"
#include "stream.h"

#include <algorithm>
#include <cstring>

namespace ucx_ib_dmabuf::sim {
namespace {

enum class Expect { device, host, any };

// A part of an argument's bytes, at the CPU's address.
struct Run {
    char *at;
    uint64_t size;
    bool device;          // device or managed memory
    bool foreign = false; // of another process
};

// Returns the contiguous bytes at the start of a range; nothing if the range is
// not as expected, or if none of the GPUs (a bit for each) has access.
Run run_at(CUdeviceptr address, uint64_t size, Expect expect, bool write,
           uint64_t gpus)
{
    constexpr Run none{nullptr, 0, false};
    auto *host        = reinterpret_cast<char *>(address);
    Allocation *found = memory().find(address);
    if (!found)
        return expect == Expect::device || !host ? none
                                                 : Run{host, size, false};
    const uint64_t left = found->base + found->size - address;
    if (left < size && found->kind != Kind::vmm)
        return none;
    Block *block = found->block;
    if (!block)
        return {host, size, found->kind == Kind::managed};
    if (expect == Expect::host ||
        !((write ? block->writable : block->readable) & gpus))
        return none;
    const uint64_t offset = address - block->base;
    size                  = std::min(left, size);
    if (write)
        block->extent->populate(offset, size);
    return {block->extent->data + offset, size, true, block->extent->foreign};
}

// Acts on ranges of 'size' bytes, once all of them are known to be there.
// 'find' finds the parts at an offset, and returns the bytes that they have at
// once.
template <typename Find, typename Act>
bool each_part(uint64_t size, Find find, Act act)
{
    for (bool found_all : {false, true}) {
        for (uint64_t done = 0, part; done < size; done += part) {
            part = find(done, size - done);
            if (!part)
                return false;
            if (found_all)
                act(part);
        }
    }
    return true;
}

uint64_t current_bit()
{
    return uint64_t(1) << current_context()->device;
}

CUresult copy(CUdeviceptr to, CUdeviceptr from, uint64_t size, Expect expect_to,
              Expect expect_from)
{
    CUresult result = need_context();
    if (result != CUDA_SUCCESS || !size)
        return result;
    // A shared lock: it prevents frees during a copy, but lets copies run
    // concurrently.
    std::shared_lock guard(memory().lock);
    const uint64_t gpus = current_bit();
    Run target{}, source{};
    const auto find = [&](uint64_t done, uint64_t left) {
        target = run_at(to + done, left, expect_to, true, gpus);
        source = run_at(from + done, left, expect_from, false, gpus);
        return std::min(target.size, source.size);
    };
    if (!each_part(size, find,
                   [&](uint64_t part) { memmove(target.at, source.at, part); }))
        return CUDA_ERROR_INVALID_VALUE;
    // A transfer by CUDA IPC is the message itself.
    if ((target.device || source.device) && !target.foreign && !source.foreign)
        copied_bytes += size;
    return CUDA_SUCCESS;
}

// For work in the legacy stream that the caller waits for.
CUresult in_legacy_stream()
{
    CUresult result = legacy_work(current_context());
    if (result == CUDA_SUCCESS)
        wait_for_kernel();
    return result;
}

CUresult copy_sync(CUdeviceptr to, CUdeviceptr from, uint64_t size,
                   Expect expect_to   = Expect::any,
                   Expect expect_from = Expect::any)
{
    CUresult result = in_legacy_stream();
    return result == CUDA_SUCCESS ? copy(to, from, size, expect_to, expect_from)
                                  : result;
}

// A stream that captures only records the work.
CUresult copy_async(CUdeviceptr to, CUdeviceptr from, uint64_t size,
                    CUstream stream, Expect expect_to = Expect::any,
                    Expect expect_from = Expect::any)
{
    CUresult result = is_default(stream) ? legacy_work(blocking_context(stream))
                                         : CUDA_SUCCESS;
    return result != CUDA_SUCCESS || is_capturing(stream)
               ? result
               : copy(to, from, size, expect_to, expect_from);
}

// Refuses the legacy stream.
CUresult copy_batch(const CUdeviceptr *to, const CUdeviceptr *from,
                    const size_t *sizes, size_t copies, CUstream stream)
{
    if (!to || !from || !sizes || !stream || stream == CU_STREAM_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < copies; ++i) {
        if (CUresult error = copy_async(to[i], from[i], sizes[i], stream))
            return error;
    }
    return CUDA_SUCCESS;
}

CUresult fill(CUdeviceptr to, unsigned char value, uint64_t size)
{
    CUresult result = in_legacy_stream();
    if (result != CUDA_SUCCESS || !size)
        return result;
    std::shared_lock guard(memory().lock);
    Run run{};
    const auto find = [&](uint64_t done, uint64_t left) {
        run = run_at(to + done, left, Expect::device, true, current_bit());
        return run.size;
    };
    if (!each_part(size, find,
                   [&](uint64_t part) { memset(run.at, value, part); }))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUdeviceptr as_device(const void *address)
{
    return reinterpret_cast<CUdeviceptr>(address);
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

// Every entry point exists once more for the per-thread default stream.
// clang-format off
SIM_ENTRY_BOTH(context, cuMemcpy, _ptds, copy_sync(to, from, size),
     CUdeviceptr to, CUdeviceptr from, size_t size)
SIM_ENTRY_BOTH(context, cuMemcpyHtoD_v2, _ptds,
     copy_sync(to, as_device(from), size, Expect::device, Expect::host),
     CUdeviceptr to, const void *from, size_t size)
SIM_ENTRY_BOTH(context, cuMemcpyDtoH_v2, _ptds,
     copy_sync(as_device(to), from, size, Expect::host, Expect::device),
     void *to, CUdeviceptr from, size_t size)
SIM_ENTRY_BOTH(context, cuMemcpyDtoD_v2, _ptds,
     copy_sync(to, from, size, Expect::device, Expect::device),
     CUdeviceptr to, CUdeviceptr from, size_t size)
SIM_ENTRY_BOTH(stream, cuMemcpyAsync, _ptsz, copy_async(to, from, size, stream),
     CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
SIM_ENTRY_BOTH(stream, cuMemcpyHtoDAsync_v2, _ptsz,
     copy_async(to, as_device(from), size, stream, Expect::device, Expect::host),
     CUdeviceptr to, const void *from, size_t size, CUstream stream)
SIM_ENTRY_BOTH(stream, cuMemcpyDtoHAsync_v2, _ptsz,
     copy_async(as_device(to), from, size, stream, Expect::host, Expect::device),
     void *to, CUdeviceptr from, size_t size, CUstream stream)
SIM_ENTRY_BOTH(stream, cuMemcpyDtoDAsync_v2, _ptsz,
     copy_async(to, from, size, stream, Expect::device, Expect::device),
     CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
SIM_ENTRY_BOTH(stream, cuMemcpyBatchAsync_v2, _ptsz,
     copy_batch(to, from, sizes, copies, stream),
     CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t copies,
     CUmemcpyAttributes *, size_t *, size_t, CUstream stream)
SIM_ENTRY_BOTH(context, cuMemsetD8_v2, _ptds, fill(to, value, count),
     CUdeviceptr to, unsigned char value, size_t count)
// clang-format on
