// SPDX-License-Identifier: BSD-3-Clause
//
// Results of calls without a GPU, and for arguments that UCX and tools pass.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace ucx_ib_dmabuf::conformance {
namespace {

constexpr auto descriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
constexpr CUuuid no_uuid{};
int number_;
CUdeviceptr address_;
CUcontext context_;
const void *table_;
CUstreamCaptureMode mode_;
std::vector<CUresult> answers;

#define ASK(_claimed, _call, ...)                                              \
    {                                                                          \
#_call, _claimed, [] { return GPU_TRY(_call, __VA_ARGS__); }           \
    }
const struct {
    const char *call;
    CUresult claimed;
    CUresult (*ask)();
} questions[] = {
    ASK(CUDA_ERROR_NO_DEVICE, cuInit, 0),
    ASK(CUDA_SUCCESS, cuDriverGetVersion, &number_),
    ASK(CUDA_SUCCESS, cuThreadExchangeStreamCaptureMode, &mode_),
    ASK(CUDA_ERROR_NOT_SUPPORTED, cuMemGetHandleForAddressRange, &number_,
        2 * MiB, 2 * MiB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
    ASK(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount, &number_),
    ASK(CUDA_ERROR_NOT_INITIALIZED, cuDevicePrimaryCtxRetain, &context_, 0),
    ASK(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent, &context_),
    ASK(CUDA_ERROR_NOT_INITIALIZED, cuPointerGetAttribute, &number_,
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 2 * MiB),
    ASK(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc, &address_, 2 * MiB),
    ASK(CUDA_ERROR_NOT_INITIALIZED, cuMemFree, 2 * MiB),
    ASK(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGraphMemTrim, 0),
};

void of_properties()
{
    CUmemAllocationProp properties{};
    size_t none = 0, size = gpu::physical::granularity(0);
    claim_result(CUDA_SUCCESS,
                 GPU_TRY(cuMemGetAllocationGranularity, &none, &properties,
                         CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cuMemGetAllocationGranularity of properties all 0");
    claim(none != 0 && none % size == 0, "that is a multiple of GPU memory's",
          std::to_string(none));

    properties                      = gpu::properties();
    properties.requestedHandleTypes = descriptor;
    const gpu::reservation place(size);
    CUmemGenericAllocationHandle handle;
    GPU_CALL(cuMemCreate, &handle, size, &properties, 0);
    GPU_CALL(cuMemMap, place.address(), size, 0, handle, 0);
    claim(number(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, place.address()) ==
              descriptor,
          "ALLOWED_HANDLE_TYPES are those that memory was created with");
    GPU_CALL(cuMemUnmap, place.address(), size);
    GPU_CALL(cuMemRelease, handle);
}

} // namespace

// Asks in a child process: the driver must be loaded without a GPU there, and
// may end it.
void ask_without_gpu()
{
    int ends[2];
    if (pipe(ends) != 0)
        return;
    const pid_t child = fork();
    if (child == 0) {
        setenv("CUDA_VISIBLE_DEVICES", "", 1);
        setenv("CUDA_SIM_DEVICES", "0", 1);
        for (const auto &question : questions) {
            const CUresult answer = question.ask();
            (void)!write(ends[1], &answer, sizeof(answer));
        }
        _exit(0);
    }
    close(ends[1]);
    for (CUresult one; read(ends[0], &one, sizeof(one)) > 0;)
        answers.push_back(one);
    close(ends[0]);
    waitpid(child, nullptr, 0);
}

void check_calls()
{
    section("without a GPU");
    for (size_t i = 0; i < answers.size(); ++i) {
        claim_result(questions[i].claimed, answers[i], questions[i].call);
    }
    claim(answers.size() == std::size(questions), "each call returns");
    section("calls of UCX and of tools");
    of_properties();
    claim_result(CUDA_SUCCESS, GPU_TRY(cuDeviceGraphMemTrim, 0),
                 "cuDeviceGraphMemTrim");
    claim_result(CUDA_ERROR_INVALID_DEVICE,
                 GPU_TRY(cuDeviceGraphMemTrim, CU_DEVICE_INVALID),
                 "cuDeviceGraphMemTrim of no device");
    claim_refused(GPU_TRY(cuGraphExecDestroy, nullptr),
                  "cuGraphExecDestroy of null");
    claim_refused(GPU_TRY(cuGetExportTable, &table_, &no_uuid),
                  "cuGetExportTable of an unknown one");
}

} // namespace ucx_ib_dmabuf::conformance
