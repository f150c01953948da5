// SPDX-License-Identifier: BSD-3-Clause
#include "driver.h"
#include "cuda_sim/cuda_sim.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string>

// Expands the name before it becomes a string: cuMemAlloc to "cuMemAlloc_v2".
#define TEST_MPI_STRING(_name) #_name
#define TEST_MPI_SYMBOL(_name) TEST_MPI_STRING(_name)

namespace ucx_ib_dmabuf::test {
namespace {

[[noreturn]] void fail(const char *what, const char *detail)
{
    std::fprintf(stderr, "%s: %s\n", what, detail);
    std::exit(2);
}

template <typename function>
void look_up(void *library, const char *symbol, function *out)
{
    *out = reinterpret_cast<function>(dlsym(library, symbol));
    if (!*out) {
        fail("libcuda.so.1 lacks", symbol);
    }
}

} // namespace

// UCX 1.13 looks for the functions that it hooks among the global symbols, as
// they are in a program that is linked with libcuda. MPI_TESTS_LIBCUDA=local
// opens it as a program does that keeps it to itself.
driver::driver()
{
    const char *scope = std::getenv("MPI_TESTS_LIBCUDA");
    const bool local  = scope && !std::strcmp(scope, "local");

    library_ =
        dlopen("libcuda.so.1", RTLD_NOW | (local ? RTLD_LOCAL : RTLD_GLOBAL));
    if (!library_) {
        return;
    }
#define TEST_MPI_LOOK_UP(_name)                                                \
    look_up(library_, TEST_MPI_SYMBOL(_name), &(_name));
    TEST_MPI_DRIVER_CALLS(TEST_MPI_LOOK_UP)
#undef TEST_MPI_LOOK_UP
    int count = 0;

    available = cuInit(0) == CUDA_SUCCESS &&
                cuDeviceGetCount(&count) == CUDA_SUCCESS && count > 0;
}

const driver &driver::get()
{
    static const driver instance;
    return instance;
}

uint64_t driver::copied_bytes() const
{
    static const auto read_counters =
        library_ ? reinterpret_cast<decltype(&::cuda_sim_counters)>(
                       dlsym(library_, "cuda_sim_counters"))
                 : nullptr;
    cuda_sim_counters_t counters;

    if (!library_) {
        return 0;
    }
    if (!read_counters) {
        fail("libcuda.so.1", "not the simulated GPU: it counts no copies");
    }
    read_counters(&counters);
    return counters.h2d_bytes + counters.d2h_bytes + counters.d2d_bytes +
           counters.h2h_bytes;
}

void check(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS) {
        fail(call, ("error " + std::to_string(result)).c_str());
    }
}

} // namespace ucx_ib_dmabuf::test
