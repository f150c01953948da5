// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cctype>
#include <cstdlib>
#include <dlfcn.h>
#include <sstream>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf::info {
namespace {

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
std::vector<fault> init_faults(const tree &files, bool is_nvidias,
                               CUresult result)
{
    const bool no_nodes = files.has("/proc/driver/nvidia/version") &&
                          !files.has("/dev/nvidiactl");

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
void explain(const tree &files, const library &cuda, part *out)
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
    out->diagnose("CUDA driver",
                  format("cuInit failed: %s (%d), %s",
                         (name == nullptr) ? "error" : name, result,
                         version_of(cuda).c_str())
                      .c_str(),
                  init_faults(files, is_nvidias, result));
}

void check_export(const driver &cuda, CUdevice device, part *out)
{
    const bool can_ask = cuda.get_handle_for_address_range != nullptr;
    const bool supported =
        cuda.attribute(device, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) != 0;
    out->diagnose(
        "dma-buf export", "yes",
        {{!can_ask, fails,
          "this NVIDIA driver has no cuMemGetHandleForAddressRange",
          "update it to one for CUDA 11.7 or later", "no"},
         {!supported, fails,
          "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0: the closed kernel "
          "module, or a GPU before Turing",
          "install NVIDIA's open kernel modules, on Linux 5.12 or later",
          "no"}});
}

// Returns the size of the device's largest region, for BAR1 without NVML.
uint64_t largest_region(const tree &files, const std::string &bus_id)
{
    std::istringstream lines(
        files.read("/sys/bus/pci/devices/" + bus_id + "/resource"));
    uint64_t begin = 0, end = 0, flags = 0, largest = 0;

    while (lines >> std::hex >> begin >> end >> flags) {
        if (end > begin) {
            largest = std::max(largest, end - begin + 1);
        }
    }
    return largest;
}

void check_bar1(const tree &files, const driver &cuda, CUdevice device,
                const std::string &bus_id, part *out)
{
    constexpr unsigned long long least = 2 << 20; // a GPU's page
    constexpr char less[] =
        "see what holds it (nvidia-smi -q -d MEMORY), or have each process "
        "register less with UCX_IB_DMABUF_MAX_SIZE";
    bar1_memory memory{};
    size_t all = 0;

    if (cuda.is_coherent(device)) {
        out->add(ok, "BAR1",
                 "not needed: the GPU has a coherent link to the host");
        return;
    }
    cuda.device_total_mem(&all, device);
    const bool known = read_bar1(bus_id.c_str(), &memory);
    if (!known) {
        memory.total = memory.free = largest_region(files, bus_id);
    }
    out->diagnose(
        "BAR1",
        (known ? size_text(memory.used) : "an unknown part") + " of " +
            size_text(memory.total) + " used",
        {{memory.total == 0, warning, "neither NVML nor /sys has its size",
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

part check_gpu(const tree &files, const driver &cuda, int index)
{
    part gpu{"GPU " + std::to_string(index)};
    CUdevice device = 0;
    char bus_id[32] = "";

    if ((cuda.device_get(&device, index) != CUDA_SUCCESS) ||
        !cuda.read_pci_address(index, bus_id)) {
        gpu.add(fails, "PCI address", "unknown",
                "the driver does not report it", "see nvidia-smi and dmesg");
        return gpu;
    }
    for (char &digit : bus_id) { // as /sys writes it
        digit = static_cast<char>(tolower(digit));
    }
    gpu.place = files.place(std::string("/sys/bus/pci/devices/") + bus_id);
    gpu.add(ok, "PCI address", bus_id);
    check_export(cuda, device, &gpu);
    check_bar1(files, cuda, device, bus_id, &gpu);
    return gpu;
}

} // namespace

void check_gpus(const tree &files, report *out)
{
    int count = 0;

    if (dlopen(libcuda, RTLD_LAZY | RTLD_LOCAL) == nullptr) {
        out->machine.add(fails, "CUDA driver", "no libcuda.so.1", dlerror(),
                         no_driver);
        return;
    }
    const driver *cuda = driver::get(true);
    if (cuda == nullptr) {
        explain(files, library(libcuda), &out->machine);
        return;
    }
    out->machine.add(ok, "CUDA driver", version_of(library(libcuda)));
    cuda->device_get_count(&count);
    for (int i = 0; i < count; ++i) {
        out->gpus.push_back(check_gpu(files, *cuda, i));
    }
}

} // namespace ucx_ib_dmabuf::info
