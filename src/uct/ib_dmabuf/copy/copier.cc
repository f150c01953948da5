// SPDX-License-Identifier: BSD-3-Clause
#include "copier.h"
#include "../../../ucm/cuda_events.h"
#include "../cuda/vendor.h"
#include <atomic>
#include <cstdio>
#include <dlfcn.h>
#include <iterator>
#include <new>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

class cuda_copier final : public memory_copier {
public:
    bool has_gpu() noexcept override;
    bool begin() noexcept override;
    ucs_status_t detect(uintptr_t address, size_t length,
                        found *out) noexcept override;
    bool place(int gpu, pci_address *out) noexcept override;
    ucs_status_t copy(void *to, const void *from, size_t length,
                      const void *gpu) noexcept override;

private:
    struct attributes {
        int type             = 0;
        unsigned managed     = 0;
        CUcontext context    = nullptr;
        unsigned ipc_capable = 0;
    };
    bool query(uintptr_t address, attributes *out) const;
    void sync_copies(uintptr_t address) const;
    static ucs_status_t try_export(cuda_vendor &gpus, uintptr_t address);

    std::atomic<const driver *> cuda_{nullptr};
};

bool cuda_copier::has_gpu() noexcept
{
    if (cuda_.load() == nullptr) {
        cuda_.store(driver::find());
    }
    return cuda_.load() != nullptr;
}

bool cuda_copier::begin() noexcept
{
    cuda_events_install();
    if (cuda_.load()->is_initialized()) {
        cuda_events_announce_existing();
    }
    return cuda_events_complete();
}

bool cuda_copier::query(uintptr_t address, attributes *out) const
{
    const driver &cuda          = *cuda_.load();
    CUpointer_attribute names[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_CONTEXT,
        CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE};
    void *values[] = {&out->type, &out->managed, &out->context,
                      &out->ipc_capable};
    relaxed_capture relaxed(cuda);

    return cuda.pointer_get_attributes(std::size(names), names, values,
                                       address) == CUDA_SUCCESS;
}

// All but what cuMemAlloc() gives may not be exported: pools, mapped memory,
// variables of modules, what another process has. UCX has no other way once it
// has chosen to register it. A page tells, with what is before it in a chunk.
ucs_status_t cuda_copier::try_export(cuda_vendor &gpus, uintptr_t address)
{
    const size_t page      = gpus.granularity();
    const uintptr_t wanted = address & ~(page - 1);
    const uintptr_t begin  = gpus.export_begin(wanted);
    int fd                 = -1;
    const ucs_status_t status =
        gpus.export_range(begin, wanted + page - begin, &fd);

    if (status == UCS_OK) {
        close(fd);
    }
    return status;
}

// For want of room or of descriptors, say, it fails only now.
bool is_of_the_memory(ucs_status_t status)
{
    return (status == UCS_OK) || (status == UCS_ERR_UNSUPPORTED) ||
           (status == UCS_ERR_INVALID_PARAM);
}

// Else cudaMemcpy() and cudaMemset() may return before their bytes are there,
// and neither a NIC nor our stream waits for them. As UCX's CUDA module does; a
// driver that refuses it for some memory does as it did before.
void cuda_copier::sync_copies(uintptr_t address) const
{
    const unsigned on = 1;
    relaxed_capture relaxed(*cuda_.load());

    cuda_.load()->pointer_set_attribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS,
                                        address);
}

ucs_status_t cuda_copier::detect(uintptr_t address, size_t length,
                                 found *out) noexcept
{
    attributes known;
    extent around;

    cuda_events_refresh();
    if (!query(address, &known) || (known.type != CU_MEMORYTYPE_DEVICE)) {
        return UCS_ERR_INVALID_ADDR;
    }
    *out = {UCS_MEMORY_TYPE_CUDA_MANAGED, address, length};
    if (known.managed != 0) {
        return UCS_OK;
    }
    cuda_vendor gpus(*cuda_.load());
    const ucs_status_t exported =
        (known.ipc_capable != 0) ? UCS_OK : try_export(gpus, address);
    if (exported == UCS_OK) {
        out->type = UCS_MEMORY_TYPE_CUDA;
    }
    if (known.context != nullptr) {
        sync_copies(address);
    }
    if (gpus.describe(address, &around) == UCS_OK) {
        out->gpu    = around.device;
        out->base   = around.base;
        out->length = around.size;
        out->lasts  = is_of_the_memory(exported) && cuda_events_complete() &&
                     (around.joins || cuda_events_saw_allocation(around.base));
    }
    return UCS_OK;
}

bool cuda_copier::place(int gpu, pci_address *out) noexcept
{
    const driver &cuda = *cuda_.load();
    CUdevice device    = 0;
    char text[32]      = "";
    unsigned domain = 0, bus = 0, slot = 0;

    if ((cuda.device_get(&device, gpu) != CUDA_SUCCESS) ||
        (cuda.device_get_pci_bus_id(text, sizeof(text), device) !=
         CUDA_SUCCESS) ||
        (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)) {
        return false;
    }
    // NICs have their places in 16 bits of a domain, too.
    *out = {static_cast<uint16_t>(domain), static_cast<uint8_t>(bus),
            static_cast<uint8_t>(slot), 0};
    return domain <= UINT16_MAX;
}

ucs_status_t cuda_copier::copy(void *to, const void *from, size_t length,
                               const void *gpu) noexcept
{
    return (length == 0) ? UCS_OK
                         : copy_memory(*cuda_.load(), to, from, length, gpu);
}

} // namespace

memory_copier *find_cuda_copier()
{
    static constinit cuda_copier only;
    static std::atomic<bool> is_there{false};

    if (!is_there.load()) { // then it stays open
        is_there.store(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) !=
                       nullptr);
    }
    return is_there.load() ? &only : nullptr;
}

} // namespace ucx_ib_dmabuf
