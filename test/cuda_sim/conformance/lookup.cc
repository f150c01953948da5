// SPDX-License-Identifier: BSD-3-Clause
//
// How cuGetProcAddress finds functions.
#include "claims.h"
#include "memory.h"
#include "report.h"

namespace ucx_ib_dmabuf::conformance {
namespace {

// The old form returns an error for a missing function.
void find_function(const char *name, int version, CUresult newest,
                   CUresult oldest)
{
    void *found = nullptr, *old = nullptr;
    const CUresult first =
        gpu::entry<CUresult(const char *, void **, int, cuuint64_t, void *)>(
            "cuGetProcAddress_v2")(name, &found, version, 0, nullptr);
    const CUresult second =
        gpu::entry<CUresult(const char *, void **, int, cuuint64_t)>(
            "cuGetProcAddress")(name, &old, version, 0);
    claim(first == newest && second == oldest && found == old &&
              (found != nullptr) == (second == CUDA_SUCCESS),
          std::string(name) + " of version " + std::to_string(version),
          name_of(first) + ", the old form " + name_of(second));
}

} // namespace

void check_lookup()
{
    section("how functions are found");
    constexpr auto none = CUDA_ERROR_NOT_FOUND;
    constexpr auto bad  = CUDA_ERROR_INVALID_VALUE;
    find_function("cuMemFree", 12000, CUDA_SUCCESS, CUDA_SUCCESS);
    find_function("cuMemFree", 99000, bad, bad);
    find_function("cuMemFree_v2", 12000, CUDA_SUCCESS, none);
    find_function("cuNoSuchFunction", 12000, CUDA_SUCCESS, none);
    find_function("cuMemAllocAsync", 11000, CUDA_SUCCESS, none); // since 11.2
}

} // namespace ucx_ib_dmabuf::conformance
