// SPDX-License-Identifier: BSD-3-Clause
//
// Claims of the simulated GPU alone: the mistakes of a program that it detects,
// the hazards that it reproduces, and its settings.
#include "conformance.h"

#include <algorithm>
#include <common/elsewhere.h>
#include <common/fds.h>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ucx_ib_dmabuf::conformance {
namespace {

constexpr auto invalid = CUDA_ERROR_INVALID_VALUE;
constexpr size_t unit  = 2 * MiB;

bool is_memory(CUdeviceptr address)
{
    return number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) > 0;
}

size_t free_bytes()
{
    size_t left = 0, total;
    GPU_TRY(cuMemGetInfo, &left, &total);
    return left;
}

CUresult fill(CUdeviceptr address, char value, size_t size = unit)
{
    return GPU_TRY(cuMemsetD8, address, static_cast<unsigned char>(value),
                   size);
}

// Whether the whole range has this value.
bool holds(CUdeviceptr address, char value, size_t size = unit)
{
    std::vector<char> data(size);
    return GPU_TRY(cuMemcpyDtoH, data.data(), address, size) == CUDA_SUCCESS &&
           data == std::vector<char>(size, value);
}

struct Mistake {
    const char *text;
    CUresult seen;
};

void refuses(std::initializer_list<Mistake> all)
{
    for (const auto &[text, seen] : all)
        claim_result(invalid, seen, text);
}

void mistakes()
{
    gpu::buffer memory(2 * unit);
    const gpu::buffer a(1024), b(1024);
    const CUdeviceptr address = memory.address();
    std::vector<char> host(4096);
    const auto at = reinterpret_cast<CUdeviceptr>(host.data());
    claim(!in_child([address] {
        return *reinterpret_cast<volatile char *>(address) == 0;
    }),
          "the CPU cannot read device memory");
    refuses({{"a free in the middle", GPU_TRY(cuMemFree, address + 512)},
             {"a copy beyond the allocation",
              GPU_TRY(cuMemcpyHtoD, a.address(), host.data(), 1025)},
             {"one that ends beyond it",
              GPU_TRY(cuMemcpyDtoH, host.data(), a.address() + 1000, 25)},
             {"cuMemsetD8 beyond it", fill(a.address(), 0, 1025)},
             {"host memory in place of device memory",
              GPU_TRY(cuMemcpyDtoD, a.address(), at, 16)},
             {"cuMemFreeAsync of cuMemAlloc memory",
              GPU_TRY(cuMemFreeAsync, b.address(), nullptr)}});
    memory.release();
    refuses({{"a second free", GPU_TRY(cuMemFree, address)},
             {"cuMemFree of host memory", GPU_TRY(cuMemFree, at)}});
    gpu::buffer pooled(unit, gpu::memory::pool);
    claim_result(CUDA_SUCCESS, GPU_TRY(cuMemFree, pooled.address()),
                 "cuMemFree of stream-ordered memory");
}

void pools()
{
    CUmemoryPool pool;
    CUdeviceptr freed;
    GPU_CALL(cuDeviceGetDefaultMemPool, &pool, 0);
    GPU_CALL(cuStreamSynchronize, nullptr);
    const size_t before = free_bytes();
    for (bool trims : {false, true}) {
        GPU_CALL(cuMemAllocFromPoolAsync, &freed, 2 * unit, pool, nullptr);
        GPU_CALL(cuMemFreeAsync, freed, nullptr);
        const bool kept = free_bytes() < before && !is_memory(freed);
        trims ? GPU_CALL(cuMemPoolTrimTo, pool, 0)
              : GPU_CALL(cuStreamSynchronize, nullptr);
        claim(kept && free_bytes() == before,
              std::string("a pool keeps freed memory until a program ") +
                  (trims ? "trims it" : "waits"));
    }
    claim_result(invalid, GPU_TRY(cuMemFreeAsync, freed, nullptr),
                 "a second free in a pool");
}

void pool_exports()
{
    const uint64_t page = host_page();
    const gpu::buffer first(unit, gpu::memory::pool),
        large(63 * MiB, gpu::memory::pool);
    for (CUdeviceptr at :
         {first.address(), large.address(), large.address() + 32 * MiB}) {
        const auto chunk =
            CUdeviceptr(number(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at));
        claim(chunk <= at &&
                  try_export(chunk, at + page - chunk) == CUDA_SUCCESS &&
                  try_export(chunk + page, page) == invalid,
              "stream-ordered memory is exported from a chunk's beginning");
    }
    claim(try_export(large.address() + page, 32 * MiB) == CUDA_SUCCESS,
          "or together with such a beginning");
}

// Registration caches must handle this hazard.
void old_memory()
{
    constexpr size_t size = 2 * unit;
    gpu::buffer first(size);
    const CUdeviceptr address = first.address();
    const bool real           = SIM_CALL(cuda_sim_dmabuf_is_real) != 0;
    int fd;
    fill(address, 'o', size);
    export_range(&fd, address, size);
    claim(real == (access("/dev/udmabuf", R_OK | W_OK) == 0) &&
              count_fds("/dmabuf:") == int(real) &&
              (!real || lseek(fd, 0, SEEK_END) == off_t(size)),
          "an export is a dma-buf, or said to be none");
    // A stand-in for a dma-buf is positioned at the range's first byte.
    const off_t at = real ? 0 : lseek(fd, 0, SEEK_CUR);
    auto *old      = static_cast<char *>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at));
    close(fd);
    first.release();
    const gpu::buffer second(size);
    fill(second.address(), 'n', size);
    claim(second.address() == address && old[0] == 'o' && old[size - 1] == 'o',
          "a dma-buf keeps old memory, whose addresses are used again");
    std::fill_n(old, size, 'x');
    claim(holds(address, 'n', size), "which writes do not reach new memory");
    munmap(old, size);
}

void mapped_memory()
{
    const auto access = gpu::access();
    const CUmemAccessDesc none{access.location, CU_MEM_ACCESS_FLAGS_PROT_NONE};
    const size_t before = free_bytes();
    {
        const gpu::reservation place(unit);
        const CUdeviceptr address = place.address();
        claim(!is_memory(address) &&
                  number(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
                         address + 4096) == (long long)address,
              "reserved addresses have a range, and no memory");
        gpu::physical(unit).map(address);
        GPU_CALL(cuMemSetAccess, address, unit, &none, 1);
        claim_result(invalid, fill(address, 'k'), "mapped memory wants access");
        GPU_CALL(cuMemSetAccess, address, unit, &access, 1);
        claim(fill(address, 'k') == CUDA_SUCCESS && holds(address, 'k') &&
                  before - free_bytes() == unit,
              "a mapping holds released memory");
        GPU_CALL(cuMemUnmap, address, unit);
    }
    claim(free_bytes() == before, "which is free after it");
}

void mapped_exports()
{
    gpu::segments two(2);
    const CUdeviceptr base = two.address();
    two.remap(1, 1);
    const CUresult devices = try_export(base, 2 * unit);
    two.remap(1, 0, false);
    refuses({{"an export of two GPUs' memory", devices},
             {"one of differing properties", try_export(base, 2 * unit)}});

    std::map<CUdeviceptr, std::unique_ptr<gpu::segments>> all;
    for (int i = 0; i < 8; ++i) {
        auto made            = std::make_unique<gpu::segments>(1);
        all[made->address()] = std::move(made);
    }
    bool stays = true, has_neighbour = false;
    for (const auto &[address, memory] : all) {
        stays &= try_export(address, 2 * unit) == invalid;
        has_neighbour |= all.count(address + unit) != 0;
    }
    claim(stays && has_neighbour, "an export stays in one reservation");
}

void contexts()
{
    CUcontext before, other;
    CUdeviceptr little, large, pooled, base;
    size_t size;
    void *pinned;
    GPU_CALL(cuCtxGetCurrent, &before);
    gpu::check(gpu::create_context(&other, 0), "cuCtxCreate");
    GPU_CALL(cuMemAlloc, &little, 100);
    GPU_CALL(cuMemAlloc, &large, 2 * unit);
    GPU_CALL(cuMemHostAlloc, &pinned, 4096, 0);
    GPU_CALL(cuMemAllocAsync, &pooled, 4096, nullptr);
    GPU_CALL(cuCtxDestroy, other);
    const auto is_gone = [](auto... address) {
        return (!is_memory(CUdeviceptr(address)) && ...);
    };
    claim(is_gone(little, large, CUdeviceptr(pinned)),
          "memory ends with its context");
    claim(is_memory(pooled), "stream-ordered memory does not");
    GPU_CALL(cuMemFree, pooled);
    claim_refused(GPU_TRY(cuCtxPushCurrent, other), "the context's use");
    claim_refused(GPU_TRY(cuCtxDestroy, other), "its second end");
    claim(gpu::buffer(2 * unit).address() == large,
          "its addresses are used again");

    const gpu::buffer memory(unit);
    const CUdeviceptr address = memory.address();
    in_threads(1, [&](unsigned) {
        constexpr auto missing = CUDA_ERROR_INVALID_CONTEXT;
        claim(GPU_TRY(cuMemGetAddressRange, &base, &size, address) == missing &&
                  try_export(address, unit) == missing,
              "ranges and exports want a context");
        gpu::create_context(&other, 1);
        claim(GPU_TRY(cuMemGetAddressRange, &base, &size, address) ==
                      CUDA_ERROR_NOT_FOUND &&
                  try_export(address, unit) == invalid,
              "which is one of their GPU");
        GPU_CALL(cuCtxDestroy, other);
    });
}

void captures()
{
    const gpu::buffer memory(unit);
    CUcontext context;
    GPU_CALL(cuCtxGetCurrent, &context);
    const std::function<CUresult()> copy = [&] {
        return holds(memory.address(), 0, 1) ? CUDA_SUCCESS
                                             : CUDA_ERROR_UNKNOWN;
    };
    const auto copy_elsewhere = [&] {
        CUresult result = CUDA_ERROR_UNKNOWN;
        in_threads(1, [&](unsigned) {
            GPU_CALL(cuCtxSetCurrent, context);
            result = copy();
        });
        return result;
    };
    const auto query = [&] {
        return buffer_id(memory.address()) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
    };
    const struct {
        CUstreamCaptureMode mode;
        unsigned flags;
        std::function<CUresult()> call;
        bool disturbs;
        const char *text;
    } all[] = {
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, copy, true,
         "a copy disturbs a global capture"},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, copy_elsewhere,
         true, "also in another thread"},
        {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_NON_BLOCKING, query, true,
         "so does a query"},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_NON_BLOCKING, copy,
         true, "a copy disturbs a capture of its thread"},
        {CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_NON_BLOCKING,
         copy_elsewhere, false, "but not in another thread"},
        {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_NON_BLOCKING, copy, false,
         "nor a relaxed one"},
        {CU_STREAM_CAPTURE_MODE_RELAXED, CU_STREAM_DEFAULT, copy, true,
         "unless the stream waits for the legacy one"},
    };
    for (const auto &each : all) {
        gpu::capture stream(each.mode, each.flags);
        const bool fails = each.call() != CUDA_SUCCESS;
        const bool ended = stream.end();
        claim(fails == each.disturbs && ended != each.disturbs, each.text);
    }
}

void versions()
{
    const struct {
        const char *name;
        int version;
        cuuint64_t flags;
        const char *symbol;
    } all[] = {
        {"cuMemAlloc", 2000, 0, "cuMemAlloc"},
        {"cuGraphAddNode", 12040, 0, "cuGraphAddNode_v2"},
        {"cuMemFreeAsync", 12000, 2, "cuMemFreeAsync_ptsz"},
        {"cuMemcpyHtoD", 12000, 2, "cuMemcpyHtoD_v2_ptds"},
    };
    auto *look_up =
        gpu::entry<CUresult(const char *, void **, int, cuuint64_t, void *)>(
            "cuGetProcAddress_v2");
    for (const auto &one : all) {
        void *found = nullptr;
        look_up(one.name, &found, one.version, one.flags, nullptr);
        claim(found == dlsym(gpu::library(), one.symbol),
              std::string("a look-up finds ") + one.symbol);
    }
}

// An exit handler that runs after the driver's own finds the driver shut down.
struct Late {
    bool armed = false;
    ~Late()
    {
        CUdeviceptr address;
        if (armed &&
            GPU_TRY(cuMemAlloc, &address, 512) != CUDA_ERROR_DEINITIALIZED)
            _exit(99);
    }
} late;

bool is_gone_at_exit = false;

} // namespace

// Asks in a child that runs exit handlers, before the driver is loaded.
void ask_at_exit()
{
    const pid_t child = fork();
    int status        = -1;
    if (child == 0) {
        late.armed = gpu::is_simulated() && GPU_TRY(cuInit, 0) == CUDA_SUCCESS;
        exit(late.armed ? 0 : 1);
    }
    waitpid(child, &status, 0);
    is_gone_at_exit = status == 0;
}

void check_simulated()
{
    if (!gpu::is_simulated())
        return;
    section("simulated");
    for (auto *part : {mistakes, pools, pool_exports, old_memory, mapped_memory,
                       mapped_exports, contexts, captures, versions})
        part();
    claim(is_gone_at_exit, "the driver is gone at exit");
}

} // namespace ucx_ib_dmabuf::conformance
