// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"

namespace {

struct Error {
    CUresult code;
    const char *name, *text;
};

#define ERROR(_code, _text)                                                    \
    {                                                                          \
        _code, #_code, _text                                                   \
    }
// clang-format off
constexpr Error errors[] = {
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEINITIALIZED, "driver shutting down"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported between these two devices"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state"),
    ERROR(CUDA_ERROR_NOT_FOUND, "named symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "device not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "context is destroyed"),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped"),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "pointer does not correspond to a registered memory region"),
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
};
// clang-format on

CUresult find(CUresult code, const char **out, const char *Error::*what)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    for (const Error &error : errors) {
        if (error.code == code)
            *out = error.*what;
    }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

SIM_ENTRY(anytime, cuGetErrorString, CUresult code, const char **out)
{
    return find(code, out, &Error::text);
}

SIM_ENTRY(anytime, cuGetErrorName, CUresult code, const char **out)
{
    return find(code, out, &Error::name);
}
