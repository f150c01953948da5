// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_vendor.h"
#include <new>

namespace ucx_ib_dmabuf {
namespace {

// Mapped memory: unlike cuMemFree(), its release waits for no kernel, and these
// calls need no context.
class mapped_buffer final : public gpu_vendor::probe_buffer {
public:
    explicit mapped_buffer(const driver &cuda) : cuda_(cuda) {}
    ~mapped_buffer() override
    {
        const relaxed_capture relaxed(cuda_);

        if (mapped_) {
            cuda_.mem_unmap(address, length);
        }
        if (address != 0) {
            cuda_.mem_address_free(address, length);
        }
    }
    mapped_buffer(const mapped_buffer &)            = delete;
    mapped_buffer &operator=(const mapped_buffer &) = delete;

    CUresult allocate(CUdevice device)
    {
        CUmemAllocationProp what             = {};
        CUmemGenericAllocationHandle handle  = 0;
        what.type                            = CU_MEM_ALLOCATION_TYPE_PINNED;
        what.location.type                   = CU_MEM_LOCATION_TYPE_DEVICE;
        what.location.id                     = device;
        what.allocFlags.gpuDirectRDMACapable = 1;

        CUresult result = cuda_.mem_get_allocation_granularity(
            &length, &what, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
        if (result == CUDA_SUCCESS) {
            result = cuda_.mem_create(&handle, length, &what, 0);
        }
        if (result == CUDA_SUCCESS) {
            result = map(handle,
                         {what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
            cuda_.mem_release(handle); // the mapping keeps the memory
        }
        return result;
    }

private:
    CUresult map(CUmemGenericAllocationHandle handle,
                 const CUmemAccessDesc &access)
    {
        CUdeviceptr reserved = 0;
        CUresult result = cuda_.mem_address_reserve(&reserved, length, 0, 0, 0);
        if (result == CUDA_SUCCESS) {
            address = reserved;
            result  = cuda_.mem_map(address, length, 0, handle, 0);
            mapped_ = result == CUDA_SUCCESS;
        }
        return mapped_ ? cuda_.mem_set_access(address, length, &access, 1)
                       : result;
    }

    const driver &cuda_;
    bool mapped_ = false;
};

} // namespace

int cuda_vendor::gpu_count()
{
    int count = 0;

    cuda_.device_get_count(&count);
    return count;
}

// The hooks query the primary context, too (src/ucm/hook_table.cc), but through
// their own table of functions, which is empty if no hooks are installed.
bool cuda_vendor::is_in_use(CUdevice device) const
{
    CUdevice current = 0;
    unsigned flags   = 0;
    int active       = 0;

    return ((cuda_.ctx_get_device(&current) == CUDA_SUCCESS) &&
            (current == device)) ||
           ((cuda_.primary_ctx_get_state(device, &flags, &active) ==
             CUDA_SUCCESS) &&
            (active != 0));
}

std::unique_ptr<gpu_vendor::probe_buffer>
cuda_vendor::allocate_probe_buffer(int gpu)
{
    const relaxed_capture relaxed(cuda_);
    CUdevice device = 0;
    int supported   = 0;

    if ((cuda_.device_get(&device, gpu) != CUDA_SUCCESS) ||
        !is_in_use(device) ||
        (cuda_.device_get_attribute(
             &supported,
             CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
             device) != CUDA_SUCCESS) ||
        (supported == 0)) {
        return nullptr;
    }
    std::unique_ptr<mapped_buffer> made(new (std::nothrow)
                                            mapped_buffer(cuda_));
    const CUresult result =
        made ? made->allocate(device) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        log_debug("ib_dmabuf: no memory of GPU %d to try: %s", gpu,
                  cuda_.error(result).c_str());
        return nullptr;
    }
    return made;
}

} // namespace ucx_ib_dmabuf
