// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_MPI_DRIVER_H_
#define UCX_IB_DMABUF_TEST_MPI_DRIVER_H_

#include <cstdint>
#include <cuda.h>

// The calls of the CUDA Driver API that the MPI programs make. CUDA's header
// maps a name like cuMemAlloc to the newest version; so do the members here.
// clang-format off
#define TEST_MPI_DRIVER_CALLS(_call)                                    \
    _call(cuInit)                                                       \
    _call(cuDeviceGetCount)                                             \
    _call(cuDeviceGet)                                                  \
    _call(cuDevicePrimaryCtxRetain)                                     \
    _call(cuDevicePrimaryCtxRelease)                                    \
    _call(cuDevicePrimaryCtxReset)                                      \
    _call(cuCtxGetDevice)                                               \
    _call(cuCtxSetCurrent)                                              \
    _call(cuCtxSynchronize)                                             \
    _call(cuMemAlloc)                                                   \
    _call(cuMemAllocPitch)                                              \
    _call(cuMemAllocManaged)                                            \
    _call(cuMemHostAlloc)                                               \
    _call(cuMemFreeHost)                                                \
    _call(cuMemFree)                                                    \
    _call(cuMemHostRegister)                                            \
    _call(cuMemHostUnregister)                                          \
    _call(cuMemAllocAsync)                                              \
    _call(cuMemFreeAsync)                                               \
    _call(cuDeviceGetDefaultMemPool)                                    \
    _call(cuMemPoolTrimTo)                                              \
    _call(cuStreamCreate)                                               \
    _call(cuStreamDestroy)                                              \
    _call(cuStreamSynchronize)                                          \
    _call(cuMemAddressReserve)                                          \
    _call(cuMemAddressFree)                                             \
    _call(cuMemCreate)                                                  \
    _call(cuMemRelease)                                                 \
    _call(cuMemMap)                                                     \
    _call(cuMemUnmap)                                                   \
    _call(cuMemSetAccess)                                               \
    _call(cuMemGetAllocationGranularity)                                \
    _call(cuMemcpyHtoD)                                                 \
    _call(cuMemcpyDtoH)
// clang-format on

namespace ucx_ib_dmabuf::test {

// libcuda, opened when first asked for: the programs link nothing of CUDA, so
// that they also run where there is none. They ask before MPI_Init, so that UCX
// finds libcuda as it does in a program that is linked with it. Thread-safe.
struct driver {
    bool available = false;
#define TEST_MPI_DECLARE(_name) decltype(&::_name) _name = nullptr;
    TEST_MPI_DRIVER_CALLS(TEST_MPI_DECLARE)
#undef TEST_MPI_DECLARE

    // Bytes copied by the simulated GPU for this process so far, in all
    // directions, whoever asked for it. 0 without libcuda. Ends the program on
    // a real GPU, which does not count them.
    uint64_t copied_bytes() const;

    static const driver &get();

private:
    driver();

    void *library_ = nullptr;
};

// Ends the program, and with it the job, if a driver call failed.
void check(CUresult result, const char *call);

} // namespace ucx_ib_dmabuf::test

#define TEST_MPI_CUDA(_name, ...)                                              \
    ::ucx_ib_dmabuf::test::check(                                              \
        ::ucx_ib_dmabuf::test::driver::get()._name(__VA_ARGS__), #_name)

#endif
