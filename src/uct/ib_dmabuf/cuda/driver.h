// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_CUDA_DRIVER_H_
#define UCX_IB_DMABUF_CUDA_DRIVER_H_

#include "../report.h"
#include <cuda.h>
#include <ucs/type/status.h>

namespace ucx_ib_dmabuf {

// The entry points of the CUDA driver that the plug-in calls. libcuda is opened
// at run time, so that the plug-in loads on machines without it.
struct driver {
    decltype(&::cuInit) init;
    decltype(&::cuGetErrorName) get_error_name;
    decltype(&::cuDeviceGetCount) device_get_count;
    decltype(&::cuDeviceGet) device_get;
    decltype(&::cuDeviceGetName) device_get_name;
    decltype(&::cuDeviceGetAttribute) device_get_attribute;
    decltype(&::cuDeviceGetPCIBusId) device_get_pci_bus_id;
    decltype(&::cuDeviceTotalMem) device_total_mem;
    decltype(&::cuDevicePrimaryCtxRetain) primary_ctx_retain;
    decltype(&::cuDevicePrimaryCtxRelease) primary_ctx_release;
    decltype(&::cuCtxPushCurrent) ctx_push_current;
    decltype(&::cuCtxPopCurrent) ctx_pop_current;
    decltype(&::cuCtxGetCurrent) ctx_get_current;
    decltype(&::cuCtxGetDevice) ctx_get_device;
    decltype(&::cuPointerGetAttribute) pointer_get_attribute;
    decltype(&::cuPointerGetAttributes) pointer_get_attributes;
    decltype(&::cuMemGetAddressRange) mem_get_address_range;
    decltype(&::cuMemcpyDtoHAsync) memcpy_dtoh_async;
    decltype(&::cuMemcpyHtoDAsync) memcpy_htod_async;
    decltype(&::cuStreamCreate) stream_create;
    decltype(&::cuStreamDestroy) stream_destroy;
    decltype(&::cuStreamSynchronize) stream_synchronize;
    decltype(&::cuThreadExchangeStreamCaptureMode) thread_exchange_capture_mode;
    // Since CUDA 11.7; null in older drivers.
    decltype(&::cuMemGetHandleForAddressRange) get_handle_for_address_range;
    // Since CUDA 12.0; null in older drivers.
    decltype(&::cuCtxGetId) ctx_get_id;

    // Opens libcuda.so.1 and initialises the driver, the first time. Null if
    // there is no libcuda, no driver or no GPU; tried again each time then,
    // for libraries that are opened late. Never released. Thread-safe.
    static const driver *get();

    // "CUDA_ERROR_NOT_SUPPORTED (801)"
    text error(CUresult result) const;
};

// The status that UCX gets for an error of the driver. UCS_ERR_BUSY: one that
// passes, of the calling thread or a capture; it says nothing of the memory.
ucs_status_t to_status(CUresult result);

} // namespace ucx_ib_dmabuf

#endif
