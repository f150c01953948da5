// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_exporter.h"
#include "../cuda/export.h"
#include "../cuda/memory.h"
#include "../report.h"
#include <ucs/memory/memory_type.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

cuda_exporter::cuda_exporter(const driver &cuda)
    : cuda_(cuda), page_size_(static_cast<size_t>(sysconf(_SC_PAGESIZE)))
{
}

ucs_status_t cuda_exporter::describe(uintptr_t address, size_t length,
                                     extent *out)
{
    cuda_memory memory;
    ucs_status_t status = cuda_describe(cuda_, address, length, &memory);

    if (status != UCS_OK) {
        return status;
    }
    if (memory.type == cuda_memory::kind::host) {
        return UCS_ERR_NO_ELEM; // as any host memory
    }
    if (memory.type == cuda_memory::kind::managed) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (!memory.rdma_capable) {
        warn_once("not RDMA capable",
                  format("GPU memory at 0x%zx was allocated without GPUDirect "
                         "RDMA; messages in it are staged through host memory. "
                         "Set allocFlags.gpuDirectRDMACapable in "
                         "cuMemCreate()'s properties",
                         address));
        return UCS_ERR_UNSUPPORTED;
    }
    out->base        = memory.base;
    out->size        = memory.size;
    out->identity    = memory.identity;
    out->device      = memory.device;
    out->memory_type = UCS_MEMORY_TYPE_CUDA;
    out->exportable  = true;
    return UCS_OK;
}

bool cuda_exporter::is_current(uintptr_t address, size_t length,
                               uint64_t identity)
{
    return cuda_is_current(cuda_, address, length, identity);
}

ucs_status_t cuda_exporter::export_range(uintptr_t address, size_t length,
                                         int *fd, size_t *offset)
{
    *offset = 0;
    return cuda_export_dmabuf(cuda_, address, length, fd);
}

} // namespace ucx_ib_dmabuf
