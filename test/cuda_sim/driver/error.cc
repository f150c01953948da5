// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"

namespace {

#define ERROR(_code)                                                           \
    {                                                                          \
        _code, #_code                                                          \
    }
// clang-format off
constexpr std::pair<CUresult, const char *> errors[] = {
    ERROR(CUDA_SUCCESS),
    ERROR(CUDA_ERROR_INVALID_VALUE),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY),
    ERROR(CUDA_ERROR_NOT_INITIALIZED),
    ERROR(CUDA_ERROR_DEINITIALIZED),
    ERROR(CUDA_ERROR_NO_DEVICE),
    ERROR(CUDA_ERROR_INVALID_DEVICE),
    ERROR(CUDA_ERROR_INVALID_CONTEXT),
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED),
    ERROR(CUDA_ERROR_INVALID_HANDLE),
    ERROR(CUDA_ERROR_ILLEGAL_STATE),
    ERROR(CUDA_ERROR_NOT_FOUND),
    ERROR(CUDA_ERROR_NOT_READY),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED),
    ERROR(CUDA_ERROR_NOT_PERMITTED),
    ERROR(CUDA_ERROR_NOT_SUPPORTED),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD),
    ERROR(CUDA_ERROR_SYSTEM_NOT_READY),
    ERROR(CUDA_ERROR_UNKNOWN),
};
// clang-format on

// The text of an error is its name here.
CUresult name_of(CUresult code, const char **out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = nullptr;
    for (const auto &[known, name] : errors) {
        if (known == code)
            *out = name;
    }
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

} // namespace

SIM_ENTRY_IS(anytime, cuGetErrorString, name_of(code, out), CUresult code,
             const char **out)
SIM_ENTRY_IS(anytime, cuGetErrorName, name_of(code, out), CUresult code,
             const char **out)
