// SPDX-License-Identifier: BSD-3-Clause
//
// Copies and memset. Asynchronous ones are complete when the call returns.
#include "../compat.h"
#include "../cuda_sim.h"
#include "calls.h"
#include "context.h"
#include "stream.h"

#include <cstring>
#include <vector>

namespace ucx_ib_dmabuf::sim {
namespace {

struct Piece {
    char *at;
    uint64_t size;
};

struct Side {
    bool device = false; // device or managed memory
    std::vector<Piece> pieces;
};

enum class Expect { device, host, any };

uint64_t bit(int device)
{
    return uint64_t(1) << device;
}

// 'who' has a bit for each GPU that may have access.
bool device_pieces(CUdeviceptr address, uint64_t size, bool write, uint64_t who,
                   std::vector<Piece> &pieces)
{
    while (size) {
        Allocation *found = memory().find(address);
        if (!found || !found->block)
            return false;
        Block *block    = found->block;
        uint64_t length = found->base + found->size - address;
        if (length < size && found->kind != Kind::vmm)
            return false;
        if (!((write ? block->writable : block->readable) & who))
            return false;
        length                = std::min(length, size);
        const uint64_t offset = address - block->base;
        if (write)
            block->extent->populate(offset, length);
        pieces.push_back({block->extent->data + offset, length});
        address += length;
        size -= length;
    }
    return true;
}

// Finds the CPU's addresses of an argument's bytes.
bool resolve(CUdeviceptr address, uint64_t size, Expect expect, bool write,
             uint64_t who, Side &side)
{
    Allocation *found = memory().find(address);
    if (found && found->block) {
        side.device = true;
        return expect != Expect::host &&
               device_pieces(address, size, write, who, side.pieces);
    }
    if (!found && (expect == Expect::device || !address))
        return false;
    if (found) {
        side.device = found->kind == Kind::managed;
        if (found->base + found->size - address < size)
            return false;
    }
    side.pieces.push_back({reinterpret_cast<char *>(address), size});
    return true;
}

void count(const Side &to, const Side &from, uint64_t size)
{
    auto &counter = to.device ? (from.device ? bytes.d2d : bytes.h2d)
                              : (from.device ? bytes.d2h : bytes.h2h);
    counter.fetch_add(size, std::memory_order_relaxed);
}

void move(const Side &to, const Side &from)
{
    size_t i = 0, j = 0;
    uint64_t done_to = 0, done_from = 0;
    while (i < to.pieces.size() && j < from.pieces.size()) {
        uint64_t part = std::min(to.pieces[i].size - done_to,
                                 from.pieces[j].size - done_from);
        memmove(to.pieces[i].at + done_to, from.pieces[j].at + done_from, part);
        done_to += part;
        done_from += part;
        if (done_to == to.pieces[i].size) {
            ++i;
            done_to = 0;
        }
        if (done_from == from.pieces[j].size) {
            ++j;
            done_from = 0;
        }
    }
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
    Side destination, source;
    uint64_t who = bit(current_context()->device);
    if (!resolve(to, size, expect_to, true, who, destination) ||
        !resolve(from, size, expect_from, false, who, source))
        return CUDA_ERROR_INVALID_VALUE;
    move(destination, source);
    count(destination, source, size);
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

// Each set of attributes applies from its first copy to that of the next set.
bool valid_attributes(const CUmemcpyAttributes *attributes,
                      const size_t *firsts, size_t sets, size_t copies)
{
    if (!attributes || !firsts || !sets || sets > copies || firsts[0])
        return false;
    for (size_t i = 0; i < sets; ++i) {
        // 1 to 3: source access in stream order, during the call, any
        if (int(attributes[i].srcAccessOrder) < 1 ||
            int(attributes[i].srcAccessOrder) > 3 || firsts[i] >= copies ||
            (i && firsts[i] <= firsts[i - 1]))
            return false;
    }
    return true;
}

// Refuses the legacy stream.
CUresult copy_batch(const CUdeviceptr *to, const CUdeviceptr *from,
                    const size_t *sizes, size_t copies, bool valid,
                    CUstream stream)
{
    if (!valid || !to || !from || !sizes || !stream ||
        stream == CU_STREAM_LEGACY)
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
    Side side;
    if (!resolve(to, size, Expect::device, true, bit(current_context()->device),
                 side))
        return CUDA_ERROR_INVALID_VALUE;
    for (const Piece &piece : side.pieces)
        memset(piece.at, value, piece.size);
    bytes.set.fetch_add(size, std::memory_order_relaxed);
    return CUDA_SUCCESS;
}

CUdeviceptr as_device(const void *address)
{
    return reinterpret_cast<CUdeviceptr>(address);
}

int touch(CUdeviceptr address, void *buffer, uint64_t size, bool write)
{
    if (state != State::ready)
        return -1;
    std::shared_lock guard(memory().lock);
    Side device, host;
    host.pieces.push_back({static_cast<char *>(buffer), size});
    if (!device_pieces(address, size, write, ~uint64_t(0), device.pieces))
        return -1;
    write ? move(device, host) : move(host, device);
    return 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

extern "C" SIM_PUBLIC int cuda_sim_peek(void *buffer, uint64_t address,
                                        size_t length)
{
    return touch(address, buffer, length, false);
}

extern "C" SIM_PUBLIC int cuda_sim_poke(uint64_t address, const void *buffer,
                                        size_t length)
{
    return touch(address, const_cast<void *>(buffer), length, true);
}

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
     copy_batch(to, from, sizes, copies,
                valid_attributes(attributes, firsts, sets, copies), stream),
     CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t copies,
     CUmemcpyAttributes *attributes, size_t *firsts, size_t sets,
     CUstream stream)
SIM_ENTRY_BOTH(context, cuMemsetD8_v2, _ptds, fill(to, value, count),
     CUdeviceptr to, unsigned char value, size_t count)
// clang-format on
