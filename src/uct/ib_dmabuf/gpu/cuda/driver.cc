// SPDX-License-Identifier: BSD-3-Clause
#include "driver.h"
#include <mutex>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

// Looks up all functions. Only the newer ones are optional.
bool find_all(void *library, driver *table)
{
    bool complete = true;

#define FIND(_member, _name, ...) find_entry(library, #_name, &table->_member)
#define FIND_NEWER(...)           FIND(__VA_ARGS__);
#define FIND_ALL(...)             complete &= FIND(__VA_ARGS__);
    UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(FIND_NEWER)
    UCX_IB_DMABUF_CUDA_ENTRIES(FIND_ALL)
    return complete;
}

// Calls cuInit() and returns whether there is a GPU.
bool start(const driver &table)
{
    int count       = 0;
    CUresult result = table.init(0);

    if (result == CUDA_SUCCESS) {
        result = table.device_get_count(&count);
    }
    if ((result != CUDA_SUCCESS) || (count == 0)) {
        log_debug("ib_dmabuf: no GPU: %d devices, %s", count,
                  table.error(result).c_str());
        return false;
    }
    return true;
}

bool open(driver *table)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (library == nullptr) {
        log_debug("ib_dmabuf: no libcuda: %s", dlerror());
        return false;
    }
    if (find_all(library, table)) {
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
    const bool has_gpu =
        opened && ((starts || table.is_initialized()) ? start(table)
                                                      : nvml_may_have_gpu());
    return has_gpu ? &table : nullptr;
}

bool driver::is_initialized() const
{
    int count = 0;
    return device_get_count(&count) != CUDA_ERROR_NOT_INITIALIZED;
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

} // namespace ucx_ib_dmabuf
