// SPDX-License-Identifier: BSD-3-Clause
#include "context.h"
#include "cuda_vendor.h"
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <iterator>
#include <optional>
#include <uct/ib_dmabuf/ucx/log.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

struct attributes {
    CUmemorytype type           = static_cast<CUmemorytype>(0);
    unsigned managed            = 0;
    unsigned long long identity = 0;
    int device                  = -1;
    CUcontext context           = nullptr;
    unsigned ipc_capable        = 0;
    CUdeviceptr base            = 0;
    size_t size                 = 0;
    CUmemoryPool pool           = nullptr;

    bool is_device() const
    {
        return (type == CU_MEMORYTYPE_DEVICE) && !managed;
    }
    // Only memory of cuMemAlloc() and similar functions is IPC capable.
    bool is_ordinary() const { return ipc_capable != 0; }
    // Pool and VMM memory.
    bool has_no_owner() const { return !is_ordinary() && (context == nullptr); }
    bool is_mapped() const { return has_no_owner() && (pool == nullptr); }
};

// All these attributes are older than exports (CUDA 11.7).
bool query(const driver &cuda, CUdeviceptr address, attributes *out)
{
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE,
        CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
    void *values[] = {&out->type,   &out->managed, &out->identity,
                      &out->device, &out->context, &out->ipc_capable,
                      &out->base,   &out->size,    &out->pool};

    CUresult result =
        cuda.pointer_get_attributes(std::size(names), names, values, address);
    if (result != CUDA_SUCCESS) {
        // Not CUDA memory, or the process is exiting.
        log_trace("ib_dmabuf: cuPointerGetAttributes(0x%llx): %s",
                  static_cast<unsigned long long>(address),
                  cuda.error(result).c_str());
        return false;
    }
    return true;
}

// For a mapped VMM segment the attributes describe its whole reservation, as
// NVIDIA documents, and for a pool perhaps its whole chunk.
// cuMemGetAddressRange returns the segment or the allocation, but needs a
// context (UCX pull request 10545).
ucs_status_t narrow(const driver &cuda, uintptr_t address, attributes *found)
{
    scoped_context context(cuda, address);
    CUresult result = context.result();

    if (result == CUDA_SUCCESS) {
        result =
            cuda.mem_get_address_range(&found->base, &found->size, address);
    }
    switch (result) {
    case CUDA_SUCCESS:
        return UCS_OK;
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_NOT_FOUND: // released in the meantime
        return UCS_ERR_NO_ELEM;
    default:
        return (cuda.failed("cuMemGetAddressRange", result, address, 1,
                            "see the NVIDIA driver's log (dmesg)") ==
                UCS_ERR_BUSY)
                   ? UCS_ERR_BUSY
                   : UCS_ERR_UNSUPPORTED;
    }
}

// Makes the context current that queries need.
struct current_context {
    current_context(const driver &cuda, uintptr_t address)
        : relaxed(cuda), context(cuda, address)
    {
    }
    relaxed_capture relaxed;
    scoped_context context;
};

// CUDA has no error code for a lack of descriptors.
bool descriptors_are_out()
{
    const int fd      = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    const bool result = (fd < 0) && ((errno == EMFILE) || (errno == ENFILE));

    if (fd >= 0) {
        close(fd);
    }
    return result;
}

const char *remedy(CUresult result)
{
    if (descriptors_are_out()) {
        return "there is no descriptor left: raise 'ulimit -n'";
    }
    switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
        return "the driver exports neither variables of modules nor memory of "
               "other processes (cudaIpcOpenMemHandle): send from memory of "
               "cudaMalloc";
    case CUDA_ERROR_NOT_SUPPORTED:
        return "this memory or this GPU's driver exports no dma-bufs; NVIDIA's "
               "open kernel modules do, for memory that is GPUDirect RDMA "
               "capable";
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "there is no room left, perhaps in BAR1 (nvidia-smi -q -d "
               "MEMORY); UCX_IB_DMABUF_MAX_SIZE limits what is registered";
    default:
        return "see the NVIDIA driver's log (dmesg)";
    }
}

// Returns an address in the range that has memory, and whether the driver
// reports that memory as GPUDirect RDMA capable. Stream-ordered memory never
// is, VMM memory only if that was requested. An H100's driver exports both
// nevertheless (docs/testing.md), so this only explains a failed export.
// The range was rounded to pages, or begins with a chunk, and may begin before
// the memory: small allocations, which are aligned to 256 bytes, share pages.
uintptr_t first_known(const driver &cuda, uintptr_t address, size_t length,
                      unsigned *rdma_capable)
{
    constexpr size_t alignment  = 256;
    constexpr size_t page_max   = 65536;
    unsigned long long identity = 0;
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_BUFFER_ID,
        CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE};
    void *values[] = {&identity, rdma_capable};

    for (size_t done = 0; done < std::min(length, page_max);
         done += alignment) {
        for (uintptr_t at :
             {address + done, address + length - alignment - done}) {
            // Without memory the answers are 0.
            if ((cuda.pointer_get_attributes(2, names, values, at) ==
                 CUDA_SUCCESS) &&
                (identity != 0)) {
                return at;
            }
        }
    }
    *rdma_capable = 1; // not known
    return address;
}

} // namespace

ucs_status_t cuda_vendor::describe_kind(uintptr_t address, bool whole,
                                        allocation *out)
{
    relaxed_capture relaxed(cuda_);
    attributes found;

    if (!query(cuda_, address, &found) || !found.is_device()) {
        return UCS_ERR_NO_ELEM;
    }
    if (whole && (found.has_no_owner() || (found.pool != nullptr))) {
        return UCS_ERR_UNSUPPORTED;
    }
    const uint64_t reservation = found.is_mapped() ? found.base : 0;
    if (!found.is_ordinary()) {
        ucs_status_t status = narrow(cuda_, address, &found);
        if (status != UCS_OK) {
            return status;
        }
    }
    *out = {found.base,        found.size,  found.identity,       found.device,
            found.is_mapped(), reservation, found.pool != nullptr};
    return UCS_OK;
}

std::shared_ptr<void> cuda_vendor::begin(uintptr_t address)
{
    return std::make_shared<current_context>(cuda_, address);
}

std::shared_ptr<void> cuda_vendor::keep_context(uintptr_t address)
try {
    const relaxed_capture relaxed(cuda_);
    int gpu           = 0;
    CUdevice device   = 0;
    CUcontext context = nullptr;

    // Retaining must not create a context. One that ends now may be created
    // anew, for a moment.
    if ((cuda_.pointer_get_attribute(&gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                     address) != CUDA_SUCCESS) ||
        (cuda_.device_get(&device, gpu) != CUDA_SUCCESS) ||
        !cuda_.is_active(device) ||
        (cuda_.primary_ctx_retain(&context, device) != CUDA_SUCCESS)) {
        return nullptr;
    }
    return {context, [this, device](void *) {
                const relaxed_capture again(cuda_);
                cuda_.primary_ctx_release(device);
            }};
} catch (const std::bad_alloc &) {
    return nullptr; // the deleter was called
}

bool cuda_vendor::is_current(uintptr_t address, uint64_t identity)
{
    unsigned long long found = 0;
    relaxed_capture relaxed(cuda_);

    return (cuda_.pointer_get_attribute(&found, CU_POINTER_ATTRIBUTE_BUFFER_ID,
                                        address) == CUDA_SUCCESS) &&
           (found == identity);
}

// A pool consists of chunks, and only an export from the beginning of a chunk
// surely succeeds (docs/testing.md).
uintptr_t cuda_vendor::export_begin(uintptr_t address)
{
    relaxed_capture relaxed(cuda_);
    unsigned unused      = 0;
    CUdeviceptr mapping  = address;
    const CUdeviceptr at = first_known(cuda_, address, page_size_, &unused);

    cuda_.pointer_get_attribute(&mapping,
                                CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, at);
    return std::min<uintptr_t>(address, mapping);
}

// Without a coherent link the driver maps through BAR1 anyway and refuses the
// flag (NV2080_CTRL_CMD_DMABUF_EXPORT_OBJECTS_TO_FD), as it does with MIG.
// Drivers before CUDA 12.8 do not know the flag.
ucs_status_t cuda_vendor::export_mapped(mapping_type how, uintptr_t address,
                                        size_t length, int *fd, bool reports)
{
    unsigned rdma_capable = 1;
    int exported          = -1;

    if (cuda_.get_handle_for_address_range == nullptr) {
        return UCS_ERR_UNSUPPORTED; // can_export() has reported why
    }
    relaxed_capture relaxed(cuda_);
    std::optional<scoped_context> context;
    // Another allocation in the first page may be freed meanwhile.
    for (int i = 0; i < 2 && (!context || context->is_unknown()); ++i) {
        context.emplace(cuda_,
                        first_known(cuda_, address, length, &rdma_capable));
    }
    CUresult result    = context->result();
    CUdevice gpu       = 0;
    const bool flagged = (how == mapping_type::pcie) &&
                         (cuda_.ctx_get_device(&gpu) == CUDA_SUCCESS) &&
                         cuda_.is_coherent(gpu);
    if (result == CUDA_SUCCESS) {
        result = cuda_.get_handle_for_address_range(
            &exported, address, length, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
            flagged ? CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE : 0);
    }
    if (flagged && ((result == CUDA_ERROR_NOT_SUPPORTED) ||
                    (result == CUDA_ERROR_INVALID_VALUE))) {
        log_debug("ib_dmabuf: no PCIe mapping of GPU memory at 0x%zx: %s",
                  address, cuda_.error(result).c_str());
        return UCS_ERR_UNSUPPORTED;
    }
    if (result == CUDA_SUCCESS) {
        *fd = exported;
        return UCS_OK;
    }
    if (!reports) {
        return to_status(result);
    }
    if ((result == CUDA_ERROR_NOT_SUPPORTED) && !rdma_capable) {
        report_refusal("not RDMA capable",
                       format("GPU memory at 0x%zx was allocated without "
                              "GPUDirect RDMA",
                              address),
                       "set allocFlags.gpuDirectRDMACapable in cuMemCreate()'s "
                       "properties; where it is stream-ordered "
                       "(cudaMallocAsync), use cudaMalloc");
        return UCS_ERR_UNSUPPORTED;
    }
    return cuda_.failed("cuMemGetHandleForAddressRange", result, address,
                        length, remedy(result));
}

} // namespace ucx_ib_dmabuf
