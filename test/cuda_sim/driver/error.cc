// SPDX-License-Identifier: BSD-3-Clause
//
// The names of errors, which stand for NVIDIA's texts, too.
#include "calls.h"

namespace {

#define ERROR(_code)                                                           \
    {                                                                          \
        CUDA_ERROR_##_code, "CUDA_ERROR_" #_code                               \
    }
constexpr struct {
    CUresult code;
    const char *name;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS"},
    ERROR(INVALID_VALUE),
    ERROR(OUT_OF_MEMORY),
    ERROR(NOT_INITIALIZED),
    ERROR(DEINITIALIZED),
    ERROR(NO_DEVICE),
    ERROR(INVALID_DEVICE),
    ERROR(INVALID_CONTEXT),
    ERROR(PEER_ACCESS_UNSUPPORTED),
    ERROR(INVALID_HANDLE),
    ERROR(ILLEGAL_STATE),
    ERROR(NOT_FOUND),
    ERROR(NOT_READY),
    ERROR(ILLEGAL_ADDRESS),
    ERROR(CONTEXT_IS_DESTROYED),
    ERROR(HOST_MEMORY_ALREADY_REGISTERED),
    ERROR(HOST_MEMORY_NOT_REGISTERED),
    ERROR(NOT_PERMITTED),
    ERROR(NOT_SUPPORTED),
    ERROR(STREAM_CAPTURE_UNSUPPORTED),
    ERROR(STREAM_CAPTURE_INVALIDATED),
    ERROR(STREAM_CAPTURE_IMPLICIT),
    ERROR(SYSTEM_NOT_READY),
    ERROR(UNKNOWN),
};

CUresult find(CUresult code, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    for (const auto &error : errors) {
        if (error.code == code)
            *out = error.name;
    }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

SIM_ENTRY_ANYTIME(cuGetErrorString, CUresult code, const char **out)
{
    return find(code, out);
}

SIM_ENTRY_ANYTIME(cuGetErrorName, CUresult code, const char **out)
{
    return find(code, out);
}
