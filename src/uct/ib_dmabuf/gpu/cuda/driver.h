// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <ucm/cuda_api.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {

// libcuda is opened at run time: the plug-in must load without it.
struct driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared
#define UCX_IB_DMABUF_CUDA_MEMBER(_member, _name, ...)                         \
    CUresult (*_member)(__VA_ARGS__);
    UCX_IB_DMABUF_CUDA_ENTRIES(UCX_IB_DMABUF_CUDA_MEMBER)
    UCX_IB_DMABUF_CUDA_NEWER_ENTRIES(UCX_IB_DMABUF_CUDA_MEMBER)
#undef UCX_IB_DMABUF_CUDA_MEMBER

    // Opens libcuda.so.1 once. Returns nullptr if there is no libcuda, driver
    // or GPU; the next call tries again then, as libraries may be opened late.
    // Never closed. Thread-safe. Calls cuInit() if `starts`: a child forked
    // after that cannot use CUDA. Else, until the program calls it, NVML
    // detects GPUs, and functions fail.
    static const driver *get(bool starts = false);
    // Whether the program has called cuInit() in this process.
    bool is_initialized() const;

    // "CUDA_ERROR_NOT_SUPPORTED (801)"
    text error(CUresult result) const;

    // Reports a failed call for a range of device memory: as a warning, the
    // first time that it fails so. Temporary errors are debug messages. Returns
    // to_status().
    ucs_status_t failed(const char *call, CUresult result, uintptr_t address,
                        size_t length, const char *remedy) const;
};

// The status that UCX gets for a driver error. UCS_ERR_BUSY: a temporary error
// of the calling thread or a capture; it does not depend on the memory.
ucs_status_t to_status(CUresult result);

// bar1.cc. Returns false if NVML finds no NVIDIA driver loaded. Thread-safe;
// calls the dynamic loader.
bool nvml_may_have_gpu();

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

} // namespace ucx_ib_dmabuf
