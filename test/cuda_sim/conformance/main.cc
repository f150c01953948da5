// SPDX-License-Identifier: BSD-3-Clause
//
// Checks the behaviour of the GPU, or the simulated one, on which this project
// relies. Prints a table in TAP. Exits with 0 if all claims hold, else with 1.
// Without a GPU everything is skipped.
#include "conformance.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace ucx_ib_dmabuf::conformance {
namespace {

const char *current = "";
int claims = 0, failed = 0;

// Prints the reason and returns false if there is nothing to check.
bool load()
{
    if (gpu::library() == nullptr) {
        printf("1..0 # SKIP no libcuda.so.1: %s\n", dlerror());
        return false;
    }
    CUresult result = GPU_TRY(cuInit, 0);
    if (result != CUDA_SUCCESS) {
        printf("1..0 # SKIP cuInit: %s\n", name_of(result).c_str());
        return false;
    }
    return true;
}

void say_what_it_is()
{
    int version = 0, dmabuf = 0;
    char name[128] = "";
    GPU_TRY(cuDriverGetVersion, &version);
    GPU_TRY(cuDeviceGetName, name, sizeof(name), 0);
    GPU_TRY(cuDeviceGetAttribute, &dmabuf,
            CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0);
    printf("# %s, %s, driver API %d, dma-bufs %s\n", name,
           gpu::is_simulated() ? "SIMULATED" : "hardware", version,
           dmabuf ? "supported" : "not supported");
}

void check_all(bool only_simulated)
{
    say_what_it_is();
    gpu::use();
    if (only_simulated) {
        check_simulated();
        return;
    }
    for (auto *part :
         {check_calls, check_queries, check_kinds, check_exports,
          check_identity, check_mappings, check_release, check_contexts,
          check_gone, check_captures, check_kernels, check_lookup,
          check_simulated, check_fork}) {
        try {
            part();
        } catch (const std::exception &error) {
            if (gpu::is_simulated()) // it must support all of it
                throw;
            observe("the rest is not possible here", error.what());
        }
    }
}

} // namespace

void section(const char *title)
{
    current = title;
    printf("#\n# %s\n", title);
}

void claim(bool holds, const std::string &text, const std::string &seen)
{
    printf("%sok %d - %s: %s%s%s\n", holds ? "" : "not ", ++claims, current,
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

uint64_t host_page()
{
    static const auto size = uint64_t(sysconf(_SC_PAGESIZE));
    return size;
}

CUresult export_range(int *fd, CUdeviceptr address, size_t size,
                      unsigned long long flags)
{
    *fd = -1;
    return GPU_TRY(cuMemGetHandleForAddressRange, fd, address, size,
                   CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

CUresult try_export(CUdeviceptr address, size_t size, unsigned long long flags)
{
    int fd;
    CUresult result = export_range(&fd, address, size, flags);
    if (result == CUDA_SUCCESS)
        close(fd);
    return result;
}

unsigned long long buffer_id(CUdeviceptr address)
{
    unsigned long long id = 0;
    GPU_TRY(cuPointerGetAttribute, &id, CU_POINTER_ATTRIBUTE_BUFFER_ID,
            address);
    return id;
}

long long number(CUpointer_attribute which, CUdeviceptr address)
{
    long long value = 0;
    return GPU_TRY(cuPointerGetAttribute, &value, which, address) ==
                   CUDA_SUCCESS
               ? value
               : -1;
}

} // namespace ucx_ib_dmabuf::conformance

// With an argument, only the claims of the simulated GPU alone are checked.
int main(int argc, char **)
{
    using namespace ucx_ib_dmabuf::conformance;

    ask_without_gpu();
    ask_at_exit();
    if (!load())
        return 0;
    try {
        check_all(argc > 1);
    } catch (const std::exception &error) {
        // The context could not be made, or the driver is too old.
        printf("Bail out! %s\n", error.what());
        return 1;
    }
    printf("1..%d\n", claims);
    return failed != 0;
}
