// SPDX-License-Identifier: BSD-3-Clause
#include "driver.h"
#include <dlfcn.h>
#include <mutex>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

// Looks up a function; returns false if the library has none of that name.
template <typename T>
bool find_entry(void *library, const char *name, T **entry)
{
    *entry = reinterpret_cast<T *>(dlsym(library, name));
    if (*entry == nullptr) {
        log_debug("ib_dmabuf: there is no %s", name);
    }
    return *entry != nullptr;
}

// Returns the answer of an NVML query; `otherwise` without the library.
template <class Question>
bool ask_nvml(bool otherwise, Question &&question)
{
    void *library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    int (*init)();
    int (*shutdown)();
    bool answer = false;

    if (library == nullptr) {
        log_debug("ib_dmabuf: no libnvidia-ml: %s", dlerror());
        return otherwise;
    }
    if (find_entry(library, "nvmlInit_v2", &init) &&
        find_entry(library, "nvmlShutdown", &shutdown) && (init() == 0)) {
        answer = question(library);
        shutdown();
    }
    dlclose(library);
    return answer;
}

// Returns false if NVML finds no NVIDIA driver loaded: nvmlInit_v2() fails
// then, and initializes no GPU.
bool nvml_may_have_gpu()
{
    return ask_nvml(true, [](void *) { return true; });
}

bool open(driver *table)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        log_debug("ib_dmabuf: no libcuda: %s", dlerror());
        return false;
    }
    if (table->find([=](const char *name) {
            void *entry = nullptr;
            find_entry(library, name, &entry);
            return entry;
        })) {
        return true;
    }
    warn_once("libcuda", "this libcuda.so.1 lacks functions that every driver "
                         "since CUDA 11 has: GPU memory is staged through host "
                         "memory. Update the NVIDIA driver");
    dlclose(library);
    return false;
}

} // namespace

const driver *driver::get(bool starts)
{
    static driver table;
    static bool opened;
    static start_lock mutex;

    if (!mutex.acquire()) {
        warn_forked();
        return nullptr;
    }
    const std::lock_guard guard(mutex, std::adopt_lock);
    opened = opened || open(&table);
    if (!opened) {
        return nullptr;
    }
    int count       = 0;
    CUresult result = table.device_get_count(&count);
    if ((result == CUDA_ERROR_NOT_INITIALIZED) && !starts) {
        return nvml_may_have_gpu() ? &table : nullptr;
    }
    if (result == CUDA_ERROR_NOT_INITIALIZED) {
        result = table.init(0);
    }
    if ((result == CUDA_SUCCESS) && (count == 0)) {
        result = table.device_get_count(&count);
    }
    if ((result != CUDA_SUCCESS) || (count == 0)) {
        log_debug("ib_dmabuf: no GPU: %d devices, %s", count,
                  table.error(result).c_str());
        return nullptr;
    }
    return &table;
}

bool driver::is_initialized() const
{
    int count = 0;
    return device_get_count(&count) != CUDA_ERROR_NOT_INITIALIZED;
}

bool driver::is_active(CUdevice device) const
{
    unsigned flags = 0;
    int active     = 0;

    return (primary_ctx_get_state(device, &flags, &active) == CUDA_SUCCESS) &&
           (active != 0);
}

// Asks no more of each GPU than needed, as a machine has up to 16.
int driver::next_in_use(int gpu, CUdevice current) const
{
    CUdevice device = 0;

    for (; device_get(&device, gpu) == CUDA_SUCCESS; ++gpu) {
        if ((device == current) || is_active(device)) {
            return gpu;
        }
    }
    return -1;
}

int driver::attribute(CUdevice device, CUdevice_attribute which) const
{
    int value = 0;
    return (device_get_attribute(&value, which, device) == CUDA_SUCCESS) ? value
                                                                         : 0;
}

bool driver::is_coherent(CUdevice device) const
{
    return attribute(
               device,
               CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) !=
           0;
}

bool driver::read_pci_address(int gpu, char (&address)[32]) const
{
    CUdevice device = 0;
    return (device_get(&device, gpu) == CUDA_SUCCESS) &&
           (device_get_pci_bus_id(address, sizeof(address), device) ==
            CUDA_SUCCESS);
}

text driver::error(CUresult result) const
{
    const char *name = nullptr;

    if ((get_error_name(result, &name) != CUDA_SUCCESS) || (name == nullptr)) {
        name = "unknown CUDA error";
    }
    return format("%s (%d)", name, static_cast<int>(result));
}

ucs_status_t driver::failed(const char *call, CUresult result,
                            uintptr_t address, size_t length,
                            const char *remedy) const
{
    const ucs_status_t status = to_status(result);

    report_refusal(format("%s %d", call, static_cast<int>(result)),
                   format("%s(0x%zx, %zu bytes) failed: %s", call, address,
                          length, error(result).c_str()),
                   remedy, status == UCS_ERR_BUSY);
    return status;
}

ucs_status_t to_status(CUresult result)
{
    switch (result) {
    case CUDA_SUCCESS:
        return UCS_OK;
    case CUDA_ERROR_OUT_OF_MEMORY:
        return UCS_ERR_NO_MEMORY;
    case CUDA_ERROR_NOT_SUPPORTED:
        return UCS_ERR_UNSUPPORTED;
    case CUDA_ERROR_INVALID_VALUE:
        return UCS_ERR_INVALID_PARAM;
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return UCS_ERR_BUSY; // the thread's state, not the memory
    default:
        return UCS_ERR_IO_ERROR;
    }
}

bool read_bar1(const char *pci_address, bar1_memory *memory)
{
    const bool known = ask_nvml(false, [&](void *library) {
        int (*by_pci_bus_id)(const char *, void **);
        int (*bar1)(void *, bar1_memory *);
        void *handle = nullptr;

        return find_entry(library, "nvmlDeviceGetHandleByPciBusId_v2",
                          &by_pci_bus_id) &&
               find_entry(library, "nvmlDeviceGetBAR1MemoryInfo", &bar1) &&
               (by_pci_bus_id(pci_address, &handle) == 0) &&
               (bar1(handle, memory) == 0) && (memory->total != 0);
    });
    if (!known) {
        log_debug("ib_dmabuf: NVML does not tell the BAR1 of %s", pci_address);
    }
    return known;
}

} // namespace ucx_ib_dmabuf
