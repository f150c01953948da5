// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_DRIVER_H_
#define UCX_IB_DMABUF_CUDA_DRIVER_H_

#include "../host/log.h"
#include "../report.h"
#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <dlfcn.h>

namespace ucx_ib_dmabuf {

// The entry points of the CUDA driver that the plug-in calls, each with its
// name in C; cuda.h maps these to versions (cuDeviceTotalMem_v2).
#define UCX_IB_DMABUF_CUDA_ENTRIES(_)                                          \
    _(init, cuInit)                                                            \
    _(get_error_name, cuGetErrorName)                                          \
    _(device_get_count, cuDeviceGetCount)                                      \
    _(device_get, cuDeviceGet)                                                 \
    _(device_get_attribute, cuDeviceGetAttribute)                              \
    _(device_get_pci_bus_id, cuDeviceGetPCIBusId)                              \
    _(device_total_mem, cuDeviceTotalMem)                                      \
    _(primary_ctx_retain, cuDevicePrimaryCtxRetain)                            \
    _(primary_ctx_release, cuDevicePrimaryCtxRelease)                          \
    _(primary_ctx_get_state, cuDevicePrimaryCtxGetState)                       \
    _(ctx_push_current, cuCtxPushCurrent)                                      \
    _(ctx_pop_current, cuCtxPopCurrent)                                        \
    _(ctx_get_current, cuCtxGetCurrent)                                        \
    _(ctx_get_device, cuCtxGetDevice)                                          \
    _(pointer_get_attribute, cuPointerGetAttribute)                            \
    _(pointer_get_attributes, cuPointerGetAttributes)                          \
    _(mem_get_address_range, cuMemGetAddressRange)                             \
    _(mem_get_allocation_granularity, cuMemGetAllocationGranularity)           \
    _(mem_address_reserve, cuMemAddressReserve)                                \
    _(mem_address_free, cuMemAddressFree)                                      \
    _(mem_create, cuMemCreate)                                                 \
    _(mem_release, cuMemRelease)                                               \
    _(mem_map, cuMemMap)                                                       \
    _(mem_unmap, cuMemUnmap)                                                   \
    _(mem_set_access, cuMemSetAccess)                                          \
    _(memcpy_dtoh_async, cuMemcpyDtoHAsync)                                    \
    _(memcpy_htod_async, cuMemcpyHtoDAsync)                                    \
    _(stream_create, cuStreamCreate)                                           \
    _(stream_destroy, cuStreamDestroy)                                         \
    _(stream_synchronize, cuStreamSynchronize)                                 \
    _(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode)
// Null in older drivers: since CUDA 11.7, since CUDA 12.0.
#define UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(_)                                    \
    _(get_handle_for_address_range, cuMemGetHandleForAddressRange)             \
    _(ctx_get_id, cuCtxGetId)

// libcuda is opened at run time, so that the plug-in loads on machines without.
struct driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define UCX_IB_DMABUF_CUDA_MEMBER(_member, _name) decltype(&::_name) _member;
    UCX_IB_DMABUF_CUDA_ENTRIES(UCX_IB_DMABUF_CUDA_MEMBER)
    UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(UCX_IB_DMABUF_CUDA_MEMBER)
#undef UCX_IB_DMABUF_CUDA_MEMBER

    // Opens libcuda.so.1 and initialises the driver, the first time. Null if
    // there is no libcuda, no driver or no GPU; tried again each time then,
    // for libraries that are opened late. Never released. Thread-safe.
    static const driver *get();

    // "CUDA_ERROR_NOT_SUPPORTED (801)"
    text error(CUresult result) const;

    // Reports a call that failed, for a range of device memory: a warning, the
    // first time that it fails so. Errors that pass are debug messages. Returns
    // to_status().
    ucs_status_t failed(const char *call, CUresult result, uintptr_t address,
                        size_t length, const char *remedy) const;
};

// The status that UCX gets for an error of the driver. UCS_ERR_BUSY: one that
// passes, of the calling thread or a capture; it says nothing of the memory.
ucs_status_t to_status(CUresult result);

// Looks up a function; false if the library has none of that name.
template <typename T>
bool find_entry(void *library, const char *name, T **entry)
{
    *entry = reinterpret_cast<T *>(dlsym(library, name));
    if (*entry == nullptr) {
        log_debug("ib_dmabuf: there is no %s", name);
    }
    return *entry != nullptr;
}

} // namespace ucx_ib_dmabuf

#endif
