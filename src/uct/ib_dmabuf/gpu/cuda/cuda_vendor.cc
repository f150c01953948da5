// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_vendor.h"
#include <climits>
#include <new>
#include <ucm/cuda_events.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

// UCM calls this in the thread that allocates or releases, before the driver
// releases.
void on_event(ucm_event_type_t type, ucm_event_t *event, void *arg) noexcept
{
    auto &told         = *static_cast<gpu_vendor::listener *>(arg);
    const auto &memory = event->mem_type;
    const auto address = reinterpret_cast<uintptr_t>(memory.address);

    if (cuda_event_is_of_old_memory() || cuda_event_is_repeated(type, *event)) {
        return; // only for UCX's cache of memory types
    }
    if (cuda_event_is_everything(*event)) {
        told.on_change(0, SIZE_MAX);
    } else if (memory.mem_type != UCS_MEMORY_TYPE_HOST) {
        (type == UCM_EVENT_MEM_TYPE_FREE)
            ? told.on_release(address, memory.size)
            : told.on_change(address, memory.size);
    }
}

// Mapped memory: unlike cuMemFree(), its release waits for no kernel, and these
// calls need no context. One thread allocates, uses and frees it.
class mapped_buffer final : public gpu_vendor::probe_buffer {
public:
    explicit mapped_buffer(const driver &cuda) : cuda_(cuda), relaxed_(cuda) {}
    ~mapped_buffer() override
    {
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
    const relaxed_capture relaxed_;
    bool mapped_ = false;
};

} // namespace

cuda_vendor::cuda_vendor(const driver &cuda)
    : cuda_(cuda), page_size_(static_cast<size_t>(sysconf(_SC_PAGESIZE)))
{
}

bool cuda_vendor::can_export() const
{
    const auto report = [](const text &why) {
        warn_once("no GPU exports", format("%s. Messages in GPU memory are "
                                           "staged through host memory",
                                           why.c_str()));
        return false;
    };

    if (cuda_.get_handle_for_address_range == nullptr) {
        return report("this NVIDIA driver has no cuMemGetHandleForAddressRange"
                      ": update it to one for CUDA 11.7 or later");
    }
    CUdevice device = 0;
    int gpu         = 0;
    for (; cuda_.device_get(&device, gpu) == CUDA_SUCCESS; ++gpu) {
        if (cuda_.attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) !=
            0) {
            return true;
        }
    }
    return (gpu == 0) ||
           report(
               format("none of the %d GPUs can export its memory as a dma-buf "
                      "(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0): install "
                      "NVIDIA's open kernel modules, on Linux 5.12 or later",
                      gpu));
}

std::unique_ptr<gpu_vendor> find_cuda()
{
    const driver *cuda = driver::get();

    if (cuda == nullptr) {
        return nullptr;
    }
    auto found = std::make_unique<cuda_vendor>(*cuda);
    return found->can_export() ? std::move(found) : nullptr;
}

void cuda_vendor::watch(listener &told) noexcept
{
    constexpr int events = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
    // Runs before UCX's own caches, which have priority 0.
    constexpr int priority = INT_MIN / 2;

    told_ = &told;
    // Installs UCX's own hooks first, then ours for the rest. NO_INSTALL: the
    // handler is needed even if UCX cannot install its own.
    cuda_events_install();
    if (all_ucm().empty() || (all_ucm().front()->set_event_handler(
                                  events | UCM_EVENT_FLAG_NO_INSTALL, priority,
                                  on_event, told_) != UCS_OK)) {
        told.on_events_missed("UCX refuses a handler of its events");
        return;
    }
    events_complete_ = true;
    cuda_events_on_incomplete(
        [](const char *why, void *arg) {
            auto *self             = static_cast<cuda_vendor *>(arg);
            self->events_complete_ = false;
            self->told_->on_events_missed(why);
        },
        this);
    cuda_events_subscribe(
        {.out_of_memory =
             [](void *arg) {
                 return static_cast<listener *>(arg)->on_out_of_memory();
             },
         .allocated =
             [](uint64_t address, size_t size, void *arg) {
                 static_cast<listener *>(arg)->on_allocation(address, size);
             },
         .context_end =
             [](void *arg) { static_cast<listener *>(arg)->on_context_end(); },
         .arg = told_});
}

size_t cuda_vendor::max_registered(int device)
{
    bar1_memory memory{};
    char pci_address[32] = "";
    CUdevice handle      = 0;

    if ((cuda_.device_get(&handle, device) != CUDA_SUCCESS) ||
        cuda_.is_coherent(handle) ||
        !cuda_.read_pci_address(device, pci_address) ||
        !read_bar1(pci_address, &memory)) {
        return SIZE_MAX;
    }
    size_t all = 0;
    log_debug("ib_dmabuf: GPU %d has %llu bytes of BAR1", device, memory.total);
    if ((cuda_.device_total_mem(&all, handle) == CUDA_SUCCESS) &&
        (memory.total >= all)) {
        return SIZE_MAX;
    }
    return static_cast<size_t>(memory.total / 10 * 9);
}

std::vector<int> cuda_vendor::gpus_in_use()
{
    const relaxed_capture relaxed(cuda_);
    std::vector<int> found;
    CUdevice current = -1;

    if (cuda_.ctx_get_device(&current) != CUDA_SUCCESS) {
        current = -1;
    }
    for (int gpu = -1; (gpu = cuda_.next_in_use(gpu + 1, current)) >= 0;) {
        found.push_back(gpu);
    }
    return found;
}

bool cuda_vendor::is_in_use(CUdevice device) const
{
    CUdevice current = 0;

    return ((cuda_.ctx_get_device(&current) == CUDA_SUCCESS) &&
            (current == device)) ||
           cuda_.is_active(device);
}

std::unique_ptr<gpu_vendor::probe_buffer>
cuda_vendor::allocate_probe_buffer(int gpu)
{
    std::unique_ptr<mapped_buffer> made(new (std::nothrow)
                                            mapped_buffer(cuda_));
    CUdevice device = 0;

    if (!made || (cuda_.device_get(&device, gpu) != CUDA_SUCCESS) ||
        !is_in_use(device) ||
        (cuda_.attribute(
             device,
             CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) ==
         0)) {
        return nullptr;
    }
    const CUresult result = made->allocate(device);
    if (result != CUDA_SUCCESS) {
        log_debug("ib_dmabuf: no memory of GPU %d to try: %s", gpu,
                  cuda_.error(result).c_str());
        return nullptr;
    }
    return made;
}

} // namespace ucx_ib_dmabuf
