// SPDX-License-Identifier: BSD-3-Clause
//
// Results of calls without a GPU, and for arguments that UCX and tools pass;
// how cuGetProcAddress finds functions.
#include "conformance.h"

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
    const CUmemAllocationProp properties{};
    size_t none = 0, size = gpu::physical::granularity(0);
    claim_result(CUDA_SUCCESS,
                 GPU_TRY(cuMemGetAllocationGranularity, &none, &properties,
                         CU_MEM_ALLOC_GRANULARITY_MINIMUM),
                 "cuMemGetAllocationGranularity of properties all 0");
    claim(none != 0 && none % size == 0, "that is a multiple of GPU memory's",
          std::to_string(none));

    const gpu::reservation place(size);
    const gpu::physical shareable(size, 0, true, true);
    shareable.map(place.address());
    claim(number(CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, place.address()) ==
              descriptor,
          "ALLOWED_HANDLE_TYPES are those that memory was created with");
    shareable.unmap(place.address());
}

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
