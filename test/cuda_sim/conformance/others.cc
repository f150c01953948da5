// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that a program did not allocate itself, and the look-up of functions.
// Nothing is claimed about the memory.
#include "claims.h"
#include "memory.h"
#include "report.h"

#include <sys/wait.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::conformance {
namespace {

constexpr char variables[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 8 .b8 small[64];
.visible .global .align 8 .b8 large[4194304];
)";

// Prints the result of exporting the first page, and the memory's attributes.
void look_at(const char *name, CUdeviceptr address)
{
    CUdeviceptr base  = 0;
    size_t size       = 0;
    const auto answer = GPU_TRY(cuMemGetAddressRange, &base, &size, address);
    const auto has    = [&](const char *what, CUpointer_attribute which) {
        return std::string(", ") + what + " " +
               std::to_string(number(which, address));
    };
    observe(name,
            "export " +
                name_of(try_export(address & ~(host_page() - 1), host_page())) +
                ", range " + name_of(answer) + " of " + std::to_string(size) +
                has("RDMA_CAPABLE",
                    CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE) +
                has("IPC_CAPABLE",
                    CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE) +
                has("BUFFER_ID", CU_POINTER_ATTRIBUTE_BUFFER_ID));
}

void of_modules()
{
    CUmodule module;
    if (GPU_TRY(cuModuleLoadData, &module, variables) != CUDA_SUCCESS) {
        observe("variables of modules", "none can be loaded");
        return;
    }
    for (const char *name : {"small", "large"}) {
        CUdeviceptr address = 0;
        size_t size         = 0;
        if (GPU_TRY(cuModuleGetGlobal, &address, &size, module, name) ==
            CUDA_SUCCESS)
            look_at(name, address);
    }
    GPU_TRY(cuModuleUnload, module);
}

// Memory that was exported as a file, imported, and mapped once more.
void of_handles()
{
    auto properties                 = gpu::properties();
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    const size_t size               = gpu::physical::granularity(0);
    const auto access               = gpu::access();
    CUmemGenericAllocationHandle made, imported;
    CUdeviceptr address;
    int fd = -1;
    if (GPU_TRY(cuMemCreate, &made, size, &properties, 0) != CUDA_SUCCESS ||
        GPU_TRY(cuMemExportToShareableHandle, &fd, made,
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) != CUDA_SUCCESS ||
        GPU_TRY(cuMemImportFromShareableHandle, &imported,
                reinterpret_cast<void *>(intptr_t(fd)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != CUDA_SUCCESS ||
        GPU_TRY(cuMemAddressReserve, &address, size, 0, 0, 0) != CUDA_SUCCESS) {
        observe("an imported handle", "not possible");
        return;
    }
    if (GPU_TRY(cuMemMap, address, size, 0, imported, 0) == CUDA_SUCCESS) {
        GPU_TRY(cuMemSetAccess, address, size, &access, 1);
        look_at("an imported handle, mapped", address);
        GPU_TRY(cuMemUnmap, address, size);
    }
    GPU_TRY(cuMemAddressFree, address, size);
    GPU_TRY(cuMemRelease, imported);
    GPU_TRY(cuMemRelease, made);
    close(fd);
}

void of_another_process()
{
    CUdeviceptr address;
    CUipcMemHandle handle;
    int ends[2];
    if (GPU_TRY(cuMemAlloc, &address, 2 * MiB) != CUDA_SUCCESS ||
        GPU_TRY(cuIpcGetMemHandle, &handle, address) != CUDA_SUCCESS ||
        pipe(ends) != 0)
        return;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[0], STDIN_FILENO);
        execl("/proc/self/exe", "cuda-conformance", "--open", nullptr);
        _exit(1);
    }
    const bool sent = write(ends[1], &handle, sizeof(handle)) > 0;
    int status;
    close(ends[0]);
    close(ends[1]);
    if (sent)
        waitpid(child, &status, 0);
    GPU_TRY(cuMemFree, address);
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

void check_others()
{
    section("memory of others");
    of_modules();
    of_handles();
    of_another_process();
    section("how functions are found");
    constexpr auto none = CUDA_ERROR_NOT_FOUND;
    constexpr auto bad  = CUDA_ERROR_INVALID_VALUE;
    find_function("cuMemFree", 12000, CUDA_SUCCESS, CUDA_SUCCESS);
    find_function("cuMemFree", 99000, bad, bad);
    find_function("cuMemFree_v2", 12000, CUDA_SUCCESS, none);
    find_function("cuNoSuchFunction", 12000, CUDA_SUCCESS, none);
    find_function("cuMemAllocAsync", 11000, CUDA_SUCCESS, none); // since 11.2
}

// Runs in a process of its own, with the handle at its standard input.
void open_handle()
{
    CUipcMemHandle handle;
    CUdeviceptr address;
    if (read(STDIN_FILENO, &handle, sizeof(handle)) != sizeof(handle))
        return;
    const CUresult result = GPU_TRY(cuIpcOpenMemHandle, &address, handle,
                                    CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    section("memory of others");
    if (result == CUDA_SUCCESS)
        look_at("another process's", address);
    else
        observe("another process's", name_of(result));
}

} // namespace ucx_ib_dmabuf::conformance
