// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"

#include <common/driver.h>
#include <cstdio>
#include <cstring>

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
    const char *name = nullptr;
    if (GPU_TRY(cuGetErrorName, result, &name) != CUDA_SUCCESS)
        return "error " + std::to_string(int(result));
    return result == CUDA_SUCCESS ? "success" : name + strlen("CUDA_ERROR_");
}

int finish()
{
    printf("1..%d\n", count);
    return failed;
}

} // namespace ucx_ib_dmabuf::conformance
