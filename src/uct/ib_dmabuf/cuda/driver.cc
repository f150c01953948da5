// SPDX-License-Identifier: BSD-3-Clause
#include "driver.h"
#include "../report.h"
#include <atomic>
#include <dlfcn.h>
#include <mutex>
#include <ucs/debug/log_def.h>

namespace ucx_ib_dmabuf {
namespace {

template <typename T>
bool find(void *library, const char *name, T *entry)
{
    *entry = reinterpret_cast<T>(dlsym(library, name));
    if (*entry == nullptr) {
        ucs_debug("ib_dmabuf: libcuda has no %s", name);
    }
    return *entry != nullptr;
}

// Everything but what older drivers lack. The names are those that cuda.h maps
// the unversioned ones to.
bool find_all(void *library, driver *table)
{
    find(library, "cuMemGetHandleForAddressRange",
         &table->get_handle_for_address_range);
    find(library, "cuCtxGetId", &table->ctx_get_id);
    return find(library, "cuInit", &table->init) &&
           find(library, "cuGetErrorName", &table->get_error_name) &&
           find(library, "cuDeviceGetCount", &table->device_get_count) &&
           find(library, "cuDeviceGet", &table->device_get) &&
           find(library, "cuDeviceGetName", &table->device_get_name) &&
           find(library, "cuDeviceGetAttribute",
                &table->device_get_attribute) &&
           find(library, "cuDeviceGetPCIBusId",
                &table->device_get_pci_bus_id) &&
           find(library, "cuDeviceTotalMem_v2", &table->device_total_mem) &&
           find(library, "cuDevicePrimaryCtxRetain",
                &table->primary_ctx_retain) &&
           find(library, "cuDevicePrimaryCtxRelease_v2",
                &table->primary_ctx_release) &&
           find(library, "cuCtxPushCurrent_v2", &table->ctx_push_current) &&
           find(library, "cuCtxPopCurrent_v2", &table->ctx_pop_current) &&
           find(library, "cuCtxGetCurrent", &table->ctx_get_current) &&
           find(library, "cuCtxGetDevice", &table->ctx_get_device) &&
           find(library, "cuPointerGetAttribute",
                &table->pointer_get_attribute) &&
           find(library, "cuPointerGetAttributes",
                &table->pointer_get_attributes) &&
           find(library, "cuMemGetAddressRange_v2",
                &table->mem_get_address_range) &&
           find(library, "cuMemcpyDtoHAsync_v2", &table->memcpy_dtoh_async) &&
           find(library, "cuMemcpyHtoDAsync_v2", &table->memcpy_htod_async) &&
           find(library, "cuStreamCreate", &table->stream_create) &&
           find(library, "cuStreamDestroy_v2", &table->stream_destroy) &&
           find(library, "cuStreamSynchronize", &table->stream_synchronize) &&
           find(library, "cuThreadExchangeStreamCaptureMode",
                &table->thread_exchange_capture_mode);
}

// Whether there is a GPU to talk to.
bool start(const driver &table)
{
    int count       = 0;
    CUresult result = table.init(0);

    if (result == CUDA_SUCCESS) {
        result = table.device_get_count(&count);
    }
    if ((result != CUDA_SUCCESS) || (count == 0)) {
        ucs_debug("ib_dmabuf: no GPU: %d devices, %s", count,
                  table.error(result).c_str());
        return false;
    }
    return true;
}

bool open(driver *table)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        ucs_debug("ib_dmabuf: no libcuda: %s", dlerror());
        return false;
    }

    if (!find_all(library, table)) {
        warn_once("libcuda", "this libcuda.so.1 lacks functions that every "
                             "driver since CUDA 11 has: GPU memory is staged "
                             "through host memory. Update the NVIDIA driver");
        dlclose(library);
        return false;
    }
    if (!start(*table)) {
        dlclose(library);
        return false;
    }
    return true;
}

} // namespace

const driver *driver::get()
{
    static driver table;
    static std::atomic<bool> opened;
    static std::mutex mutex;

    if (!opened.load(std::memory_order_acquire)) {
        std::lock_guard<std::mutex> guard(mutex);
        if (!opened.load(std::memory_order_relaxed)) {
            if (!open(&table)) {
                return nullptr;
            }
            opened.store(true, std::memory_order_release);
        }
    }
    return &table;
}

text driver::error(CUresult result) const
{
    const char *name = nullptr;

    if ((get_error_name(result, &name) != CUDA_SUCCESS) || (name == nullptr)) {
        name = "unknown CUDA error";
    }
    return format("%s (%d)", name, static_cast<int>(result));
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
        return UCS_ERR_BUSY; // what is current in the thread, not the memory
    default:
        return UCS_ERR_IO_ERROR;
    }
}

} // namespace ucx_ib_dmabuf
