// SPDX-License-Identifier: BSD-3-Clause
#include "cuda_copy.h"
#include "component.h"
#include <atomic>
#include <cstdio>
#include <dlfcn.h>
#include <iterator>
#include <mutex>
#include <ucm/cuda_events.h>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <uct/ib_dmabuf/ucx/ucs.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

// Whether the status depends on the memory, not on a temporary lack of room.
bool is_of_the_memory(ucs_status_t status)
{
    return (status == UCS_OK) || (status == UCS_ERR_UNSUPPORTED) ||
           (status == UCS_ERR_INVALID_PARAM);
}

class driver_copies final : public cuda_copy_ops {
public:
    bool has_gpu() noexcept override
    {
        if (cuda_.load() == nullptr) {
            cuda_.store(driver::get());
        }
        return cuda_.load() != nullptr;
    }

    bool begin() noexcept override
    {
        cuda_events_install();
        const driver *cuda = cuda_.load(); // null if UCX asked for no GPUs
        if ((cuda != nullptr) && cuda->is_initialized()) {
            cuda_events_announce_existing();
        }
        return cuda_events_complete();
    }

    ucs_status_t detect(uintptr_t address, size_t length,
                        found *out) noexcept override
    {
        const driver &cuda = *cuda_.load();
        cuda_vendor gpus(cuda);
        allocation around;

        *out = {UCS_MEMORY_TYPE_CUDA_MANAGED, address, length};
        const ucs_status_t status = gpus.describe(address, &around);
        if (status == UCS_ERR_NO_ELEM) {
            return is_only_copied(cuda, address, length) ? UCS_OK
                                                         : UCS_ERR_INVALID_ADDR;
        }
        sync_copies(address);
        if (status != UCS_OK) {
            return UCS_OK; // it cannot be registered either
        }
        // cuMemAlloc()'s memory can be exported as soon as there is room.
        const bool ordinary         = !around.joins && !around.in_chunks;
        const ucs_status_t exported = try_export(gpus, address, around, true);
        if ((exported == UCS_OK) || (ordinary && !is_of_the_memory(exported))) {
            out->type = UCS_MEMORY_TYPE_CUDA;
        }
        out->gpu    = around.device;
        out->base   = around.base;
        out->length = around.size;
        out->lasts  = is_of_the_memory(exported) && cuda_events_complete() &&
                     (around.joins || cuda_events_saw_allocation(around.base));
        return UCS_OK;
    }

    bool is_exportable(uintptr_t address) noexcept override
    {
        allocation around;

        if (!has_gpu()) {
            return true;
        }
        cuda_vendor gpus(*cuda_.load());
        if (gpus.describe(address, &around) != UCS_OK) {
            return true; // no matter of exports
        }
        // UCX may have other ways than NICs: no warning.
        const ucs_status_t status = try_export(gpus, address, around, false);
        // A lack of room may pass. Without dma-bufs there may be peer memory.
        return (status == UCS_OK) || !is_of_the_memory(status) ||
               !gpus.can_export();
    }

    bool place(int gpu, pci_address *out) noexcept override
    {
        char text[32]   = "";
        unsigned domain = 0, bus = 0, slot = 0;

        if (!cuda_.load()->read_pci_address(gpu, text) ||
            (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)) {
            return false;
        }
        // UCX's PCI addresses of NICs, too, have 16 bits for a domain.
        *out = {static_cast<uint16_t>(domain), static_cast<uint8_t>(bus),
                static_cast<uint8_t>(slot), 0};
        return domain <= UINT16_MAX;
    }

    ucs_status_t copy(void *to, const void *from, size_t length,
                      const void *gpu) noexcept override
    {
        return (length == 0)
                   ? UCS_OK
                   : copy_memory(*cuda_.load(), to, from, length, gpu, true);
    }

private:
    // Whether only the driver may access memory that is not a GPU's: managed
    // memory, and mapped host memory (CU_MEM_LOCATION_TYPE_HOST_NUMA), to which
    // the CPU perhaps has no access.
    static bool is_only_copied(const driver &cuda, uintptr_t address,
                               size_t length)
    {
        const relaxed_capture relaxed(cuda);
        CUmemGenericAllocationHandle handle = 0;
        unsigned managed                    = 0;
        auto type                           = CUmemorytype{};
        CUpointer_attribute names[]         = {CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                               CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
        void *values[]                      = {&managed, &type};

        const CUresult result =
            cuda.pointer_get_attributes(2, names, values, address);
        if (result != CUDA_SUCCESS) {
            // After an error of the program the driver rejects queries. UCX
            // would let the CPU access the memory; a copy returns that error.
            return (result != CUDA_ERROR_INVALID_VALUE) &&
                   may_be_allocated(address, length);
        }
        if ((type != CU_MEMORYTYPE_HOST) || (managed != 0)) {
            return managed != 0;
        }
        const bool is_mapped =
            cuda.mem_retain_allocation_handle(
                &handle, reinterpret_cast<void *>(address)) == CUDA_SUCCESS;
        if (is_mapped) {
            cuda.mem_release(handle);
        }
        return is_mapped;
    }

    // Tests an export: UCX has no fallback once it has chosen to register.
    // Memory of other processes, variables of modules, and all memory of some
    // GPUs cannot be exported. An export takes longer than all else here (34
    // us): a page, once for each GPU and kind of memory, and for each
    // allocation of which the kind does not tell.
    ucs_status_t try_export(cuda_vendor &gpus, uintptr_t address,
                            const allocation &around, bool reports)
    {
        const uint64_t identity = around.identity;
        std::atomic<uint64_t> &known =
            exported_[identity % std::size(exported_)];
        std::atomic<bool> &of_kind =
            exported_kinds_[gpu_index(around.device)]
                           [around.joins ? 0 : 1 + around.in_chunks];
        const size_t page      = gpus.granularity();
        const uintptr_t wanted = address & ~(page - 1);
        int fd                 = -1;

        if (((identity != 0) && (known.load() == identity)) ||
            (of_kind.load() && is_as_its_kind(address, around))) {
            return UCS_OK;
        }
        if (reports && !gpus.can_export()) {
            return UCS_ERR_UNSUPPORTED;
        }
        const uintptr_t begin     = gpus.export_begin(wanted);
        const size_t length       = wanted + page - begin;
        const ucs_status_t status = gpus.export_mapped(
            mapping_type::standard, begin, length, &fd, reports);
        if (status == UCS_OK) {
            close(fd);
            known.store(identity);
            if (is_as_its_kind(address, around)) {
                of_kind.store(true);
            }
        }
        return status;
    }

    // Whether the driver exports it if it exports other memory of its kind.
    bool is_as_its_kind(uintptr_t address, const allocation &around) const
    {
        const driver &cuda = *cuda_.load();
        unsigned capable   = 0;

        if (!around.joins) {
            return cuda_events_complete() && cuda_events_saw_own_allocation(
                                                 around.base, around.in_chunks);
        }
        const relaxed_capture relaxed(cuda);
        return (cuda.pointer_get_attribute(
                    &capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                    address) == CUDA_SUCCESS) &&
               (capable != 0);
    }

    // Makes cudaMemcpy() and cudaMemset() complete before they return, as UCX's
    // CUDA module does: neither a NIC nor our stream waits for them. The driver
    // may refuse.
    void sync_copies(uintptr_t address) const
    {
        const unsigned on = 1;
        relaxed_capture relaxed(*cuda_.load());

        cuda_.load()->pointer_set_attribute(
            &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, address);
    }

    std::atomic<const driver *> cuda_{nullptr};
    // Identities of exported allocations, indexed by their remainder.
    std::atomic<uint64_t> exported_[256]{};
    // By GPU: mapped, ordinary and stream-ordered memory.
    std::atomic<bool> exported_kinds_[max_gpus][3]{};
};

} // namespace

cuda_copy_ops *find_cuda_copy_ops()
{
    static constinit driver_copies only;
    // Never closed.
    return (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr)
               ? &only
               : nullptr;
}

void offer_cuda_copy(ucx_instance &to)
{
    static std::mutex mutex;
    const char *why = nullptr;
    cuda_copy_ops *const ops =
        to.cuda_copy_decided.load() ? nullptr : find_cuda_copy_ops();

    if (ops == nullptr) {
        return;
    }
    if (to.ucm().tries_exports && to.ucm().has_cuda) {
        to.knows_exports.store(correct_cuda_copy(to.uct_ib(), *ops));
        to.cuda_copy_decided.store(true);
        return;
    }
    auto *const made = cuda_copy_component::make(to.uct_ib(), *ops, &why);
    {
        // Callers list components next: ours must be there by then.
        const std::lock_guard<std::mutex> guard(mutex);
        if (to.cuda_copy_decided.load()) {
            return; // another thread was faster; `made` leaks, once
        }
        if (made != nullptr) {
            made->show();
        }
        to.cuda_copy_decided.store(true);
    }
    if (made == nullptr) {
        log_debug("ib_dmabuf: no copies of GPU memory for the UCX of %s, which "
                  "has no %s",
                  to.path(), why);
    } else {
        log_debug("ib_dmabuf: the UCX of %s, which has no CUDA, is given "
                  "cuda_copy",
                  to.path());
    }
}

} // namespace ucx_ib_dmabuf
