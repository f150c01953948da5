// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <cstdio>

namespace ucx_ib_dmabuf::conformance {
namespace {

const char *current = "";
int count = 0, failed = 0;

} // namespace

void section(const char *title)
{
    current = title;
    printf("#\n# %s\n", title);
}

void claim(bool holds, const std::string &text, const std::string &seen)
{
    printf("%sok %d - %s: %s%s%s\n", holds ? "" : "not ", ++count, current,
           text.c_str(), seen.empty() ? "" : " -> ", seen.c_str());
    failed += !holds;
    fflush(stdout);
}

void claim_result(CUresult expected, CUresult seen, const std::string &text)
{
    claim(expected == seen, text,
          name_of(seen) +
              (expected == seen ? "" : ", claimed " + name_of(expected)));
}

void claim_refused(CUresult seen, const std::string &text)
{
    claim(seen != CUDA_SUCCESS, text, name_of(seen));
}

void observe(const std::string &text, const std::string &seen)
{
    printf("# %s: %s -> %s\n", current, text.c_str(), seen.c_str());
    fflush(stdout);
}

std::string name_of(CUresult result)
{
    switch (int(result)) {
    case CUDA_SUCCESS:
        return "success";
    case CUDA_ERROR_INVALID_VALUE:
        return "INVALID_VALUE";
    case CUDA_ERROR_OUT_OF_MEMORY:
        return "OUT_OF_MEMORY";
    case CUDA_ERROR_NOT_INITIALIZED:
        return "NOT_INITIALIZED";
    case CUDA_ERROR_INVALID_CONTEXT:
        return "INVALID_CONTEXT";
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        return "CONTEXT_IS_DESTROYED";
    case CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED:
        return "STREAM_CAPTURE_UNSUPPORTED";
    case CUDA_ERROR_STREAM_CAPTURE_INVALIDATED:
        return "STREAM_CAPTURE_INVALIDATED";
    case CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return "STREAM_CAPTURE_IMPLICIT";
    case CUDA_ERROR_NOT_FOUND:
        return "NOT_FOUND";
    case CUDA_ERROR_NOT_SUPPORTED:
        return "NOT_SUPPORTED";
    default:
        return "error " + std::to_string(int(result));
    }
}

int finish()
{
    printf("1..%d\n", count);
    return failed;
}

} // namespace ucx_ib_dmabuf::conformance
