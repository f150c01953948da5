// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cctype>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf::info {
namespace {

using std::filesystem::exists;

constexpr char libcuda[] = "libcuda.so.1";
constexpr char no_driver[] =
    "install NVIDIA's driver; in a container, pass the GPUs to it with "
    "NVIDIA's container toolkit";

std::string version_of(const library &cuda)
{
    const auto get = cuda.symbol<CUresult(int *)>("cuDriverGetVersion");
    int version    = 0;

    if ((get == nullptr) || (get(&version) != CUDA_SUCCESS)) {
        return "CUDA's version is unknown";
    }
    return format("CUDA %d.%d", version / 1000, version % 1000 / 10).c_str();
}

// Why driver::get() failed; the last one applies to any other result of cuInit.
std::vector<fault> init_faults(bool is_nvidias, CUresult result)
{
    const bool no_nodes = exists(root + "/proc/driver/nvidia/version") &&
                          !exists(root + "/dev/nvidiactl");

    return {
        {!is_nvidias, fails, "it has no cuInit", no_driver,
         "libcuda.so.1 is none of NVIDIA's"},
        {result == CUDA_SUCCESS, fails,
         "cuDeviceGetCount gives none, or functions are missing",
         "see CUDA_VISIBLE_DEVICES and nvidia-smi; update the driver if it is "
         "older",
         "it finds no GPU, or is older than CUDA 11"},
        {no_nodes, fails,
         "the kernel module is loaded, but there is no /dev/nvidiactl",
         "make the devices ('nvidia-modprobe -u -c=0' as root); in a "
         "container, pass the GPUs to it with NVIDIA's container toolkit"},
        {(result == CUDA_ERROR_NO_DEVICE) &&
             (getenv("CUDA_VISIBLE_DEVICES") != nullptr),
         fails,
         "CUDA_VISIBLE_DEVICES='" + variable("CUDA_VISIBLE_DEVICES") +
             "' names no GPU that is here",
         "unset it, or ask for a GPU in the job (Slurm: --gres)"},
        {result == CUDA_ERROR_SYSTEM_NOT_READY, fails,
         "GPUs behind NVSwitches wait for NVIDIA's fabric manager",
         "'systemctl start nvidia-fabricmanager', of the driver's version"},
        {result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, fails,
         "libcuda.so.1 and the kernel module are of two versions, as after an "
         "update",
         "boot, or load the module anew; see that no other libcuda.so.1 is "
         "found first (LD_LIBRARY_PATH)"},
        {result == CUDA_ERROR_STUB_LIBRARY, fails,
         "libcuda.so.1 is the stub that the CUDA toolkit has to link with, not "
         "the driver's library",
         "take its folder (.../stubs) out of LD_LIBRARY_PATH"},
        {result == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, fails,
         "libcuda.so.1 is of CUDA's forward compatibility package, which this "
         "GPU or its driver does not support",
         "take its folder (.../compat) out of LD_LIBRARY_PATH, or update the "
         "driver"},
        {true, fails, "the driver finds no GPU that it can use",
         "see nvidia-smi and dmesg, and the rights on /dev/nvidia*"}};
}

// Explains why driver::get() failed, which needs the functions of CUDA 11.
void explain(const library &cuda, json *out)
{
    const auto init = cuda.symbol<CUresult(unsigned)>("cuInit");
    const auto error_name =
        cuda.symbol<CUresult(CUresult, const char **)>("cuGetErrorName");
    const bool is_nvidias = (init != nullptr) && (error_name != nullptr);
    const CUresult result = is_nvidias ? init(0) : CUDA_SUCCESS;
    const char *name      = nullptr;

    if (is_nvidias) {
        error_name(result, &name); // nullptr if it has none
    }
    diagnose(out, "CUDA driver",
             format("cuInit failed: %s (%d), %s",
                    (name == nullptr) ? "error" : name, result,
                    version_of(cuda).c_str())
                 .c_str(),
             init_faults(is_nvidias, result));
}

void check_export(const driver &cuda, CUdevice device, json *out)
{
    const bool can_ask = cuda.get_handle_for_address_range != nullptr;
    const bool supported =
        cuda.attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
    diagnose(out, "dma-buf export", "yes",
             {{!can_ask, fails,
               "this NVIDIA driver has no cuMemGetHandleForAddressRange",
               "update it to one for CUDA 11.7 or later", "no"},
              {!supported, fails,
               "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0: the closed kernel "
               "module, or a GPU before Turing",
               "install NVIDIA's open kernel modules, on Linux 5.12 or later",
               "no"}});
}

void check_bar1(const driver &cuda, CUdevice device, const char *bus_id,
                json *out)
{
    constexpr unsigned long long least = 2 << 20; // a GPU's page
    constexpr char less[] =
        "see what holds it (nvidia-smi -q -d MEMORY), or have each process "
        "register less with UCX_IB_DMABUF_MAX_SIZE";
    bar1_memory memory{};
    size_t all = 0;

    if (cuda.is_coherent(device)) {
        add(out, ok, "BAR1",
            "not needed: the GPU has a coherent link to the host");
        return;
    }
    cuda.device_total_mem(&all, device);
    const bool known = read_bar1(bus_id, &memory);
    diagnose(
        out, "BAR1",
        size_text(memory.used) + " of " + size_text(memory.total) + " used",
        {{!known || (memory.total == 0), warning, "NVML does not report it",
          "install libnvidia-ml, which comes with the driver", "unknown"},
         {memory.free < least, fails,
          "BAR1 is full: nothing more of the GPU can be registered", less},
         {memory.free < memory.total / 10, warning, "BAR1 is almost full",
          less},
         {memory.total < all, warning,
          "it is smaller than the GPU's memory (" + size_text(all) +
              "), so not all of that can be registered at a time",
          "switch resizable BAR on in the BIOS, or the GPU's large BAR1 mode "
          "with NVIDIA's displaymodeselector"}});
}

json check_gpu(const driver &cuda, int index)
{
    json gpu        = make_part("GPU " + std::to_string(index));
    CUdevice device = 0;
    char bus_id[32] = "";

    if ((cuda.device_get(&device, index) != CUDA_SUCCESS) ||
        !cuda.read_pci_address(index, bus_id)) {
        add(&gpu, fails, "PCI address", "unknown",
            "the driver does not report it", "see nvidia-smi and dmesg");
        return gpu;
    }
    for (char &digit : bus_id) { // as /sys writes it
        digit = static_cast<char>(tolower(digit));
    }
    add_place(root + "/sys/bus/pci/devices/" + bus_id, &gpu);
    add(&gpu, ok, "PCI address", bus_id);
    check_export(cuda, device, &gpu);
    check_bar1(cuda, device, bus_id, &gpu);
    return gpu;
}

} // namespace

void check_gpus(json *report)
{
    json *machine = &(*report)["machine"];
    int count     = 0;

    if (dlopen(libcuda, RTLD_LAZY | RTLD_LOCAL) == nullptr) {
        add(machine, fails, "CUDA driver", "no libcuda.so.1", dlerror(),
            no_driver);
        return;
    }
    const driver *cuda = driver::get(true);
    if (cuda == nullptr) {
        explain(library(libcuda), machine);
        return;
    }
    add(machine, ok, "CUDA driver", version_of(library(libcuda)));
    cuda->device_get_count(&count);
    for (int i = 0; i < count; ++i) {
        (*report)["gpus"].push_back(check_gpu(*cuda, i));
    }
}

} // namespace ucx_ib_dmabuf::info
