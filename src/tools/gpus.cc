// SPDX-License-Identifier: BSD-3-Clause
#include "look.h"
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sstream>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>

namespace ucx_ib_dmabuf::info {
namespace {

constexpr char no_driver[] =
    "install NVIDIA's driver; in a container, pass the GPUs to it with "
    "NVIDIA's container toolkit";

struct explanation {
    std::string cause;
    const char *remedy;
};

explanation explain_init(const tree &files, CUresult result)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (files.has("/proc/driver/nvidia/version") &&
        !files.has("/dev/nvidiactl")) {
        return {"the kernel module is loaded, but there is no /dev/nvidiactl",
                "make the devices ('nvidia-modprobe -u -c=0' as root); in a "
                "container, pass the GPUs to it with NVIDIA's container "
                "toolkit"};
    }
    if ((result == CUDA_ERROR_NO_DEVICE) && (visible != nullptr)) {
        return {"CUDA_VISIBLE_DEVICES='" + std::string(visible) +
                    "' names no GPU that is here",
                "unset it, or ask for a GPU in the job (Slurm: --gres)"};
    }
    if (result == CUDA_ERROR_SYSTEM_NOT_READY) {
        return {"GPUs behind NVSwitches wait for NVIDIA's fabric manager",
                "'systemctl start nvidia-fabricmanager', of the driver's "
                "version"};
    }
    if (result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH) {
        return {"libcuda.so.1 and the kernel module are of two versions, as "
                "after an update",
                "boot, or load the module anew; see that no other "
                "libcuda.so.1 is found first (LD_LIBRARY_PATH)"};
    }
    if (result == CUDA_ERROR_STUB_LIBRARY) {
        return {"libcuda.so.1 is the stub that the CUDA toolkit has to link "
                "with, not the driver's library",
                "take its folder (.../stubs) out of LD_LIBRARY_PATH"};
    }
    if (result == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE) {
        return {"libcuda.so.1 is of CUDA's forward compatibility package, "
                "which this GPU or its driver does not support",
                "take its folder (.../compat) out of LD_LIBRARY_PATH, or "
                "update the driver"};
    }
    return {"the driver finds no GPU that it can use",
            "see nvidia-smi and dmesg, and the rights on /dev/nvidia*"};
}

std::string version_of(void *library)
{
    CUresult (*get)(int *) = nullptr;
    int version            = 0;

    return (find_entry(library, "cuDriverGetVersion", &get) &&
            (get(&version) == CUDA_SUCCESS))
               ? "CUDA " + std::to_string(version / 1000) + "." +
                     std::to_string(version % 1000 / 10)
               : "CUDA's version is unknown";
}

// Explains why driver::get() failed, which needs the functions of CUDA 11.
void explain(const tree &files, void *library, part *out)
{
    CUresult (*init)(unsigned)                      = nullptr;
    CUresult (*error_name)(CUresult, const char **) = nullptr;
    const char *name                                = nullptr;

    if (!find_entry(library, "cuInit", &init) ||
        !find_entry(library, "cuGetErrorName", &error_name)) {
        out->fails("CUDA driver", "libcuda.so.1 is none of NVIDIA's",
                   "it has no cuInit", no_driver);
        return;
    }
    const CUresult result = init(0);
    if (result == CUDA_SUCCESS) {
        out->fails("CUDA driver", "it finds no GPU, or is older than CUDA 11",
                   "cuDeviceGetCount gives none, or functions are missing",
                   "see CUDA_VISIBLE_DEVICES and nvidia-smi; update the driver "
                   "if it is older");
        return;
    }
    error_name(result, &name); // nullptr if it has none
    const auto [cause, remedy] = explain_init(files, result);
    out->fails(
        "CUDA driver",
        "cuInit failed: " + std::string(name == nullptr ? "error" : name) +
            " (" + std::to_string(result) + "), " + version_of(library),
        cause, remedy);
}

void look_at_export(const driver &cuda, CUdevice device, part *out)
{
    int supported = 0;

    if (cuda.get_handle_for_address_range == nullptr) {
        out->fails("dma-buf export", "no",
                   "this NVIDIA driver has no cuMemGetHandleForAddressRange",
                   "update it to one for CUDA 11.7 or later");
        return;
    }
    cuda.device_get_attribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
                              device);
    if (supported == 0) {
        out->fails("dma-buf export", "no",
                   "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0: the closed "
                   "kernel module, or a GPU before Turing",
                   "install NVIDIA's open kernel modules, on Linux 5.12 or "
                   "later");
    } else {
        out->ok("dma-buf export", "yes");
    }
}

// Returns the size of the device's largest region, for BAR1 without NVML.
uint64_t largest_region(const tree &files, const std::string &bus_id)
{
    std::istringstream lines(
        files.all_of("/sys/bus/pci/devices/" + bus_id + "/resource"));
    std::string line;
    uint64_t largest = 0;

    while (std::getline(lines, line)) {
        unsigned long long begin = 0, end = 0;
        if ((sscanf(line.c_str(), "%llx %llx", &begin, &end) == 2) &&
            (end > begin)) {
            largest = std::max<uint64_t>(largest, end - begin + 1);
        }
    }
    return largest;
}

void look_at_bar1(const tree &files, const driver &cuda, CUdevice device,
                  const std::string &bus_id, part *out)
{
    constexpr unsigned long long least = 2 << 20; // a GPU's page
    bar1_memory memory{};
    size_t all = 0;

    cuda.device_total_mem(&all, device);
    const bool known = read_bar1(bus_id.c_str(), &memory);
    if (!known) {
        memory.total = memory.free = largest_region(files, bus_id);
    }
    const std::string found =
        (known ? size_text(memory.used) : "an unknown part") + " of " +
        size_text(memory.total) + " used";
    if (is_coherent(cuda, device)) {
        out->ok("BAR1", "not needed: the GPU has a coherent link to the host");
    } else if (memory.total == 0) {
        out->warns("BAR1", "unknown", "neither NVML nor /sys tells its size",
                   "install libnvidia-ml, which comes with the driver");
    } else if (memory.free < least) {
        out->fails("BAR1", found,
                   "BAR1 is full: nothing more of the GPU can be registered",
                   "end what holds it (nvidia-smi -q -d MEMORY), or have each "
                   "process register less with UCX_IB_DMABUF_MAX_SIZE");
    } else if (memory.free < memory.total / 10) {
        out->warns("BAR1", found, "BAR1 is almost full",
                   "see what holds it (nvidia-smi -q -d MEMORY), or have each "
                   "process register less with UCX_IB_DMABUF_MAX_SIZE");
    } else if (memory.total < all) {
        out->warns("BAR1", found,
                   "it is smaller than the GPU's memory (" + size_text(all) +
                       "), so not all of that can be registered at a time",
                   "switch resizable BAR on in the BIOS, or the GPU's large "
                   "BAR1 mode with NVIDIA's displaymodeselector");
    } else {
        out->ok("BAR1", found);
    }
}

void look_at_gpu(const tree &files, const driver &cuda, int index, report *out)
{
    part gpu{"GPU " + std::to_string(index)};
    CUdevice device = 0;
    char plain[32]  = "";

    if ((cuda.device_get(&device, index) != CUDA_SUCCESS) ||
        (cuda.device_get_pci_bus_id(plain, sizeof(plain), device) !=
         CUDA_SUCCESS)) {
        gpu.fails("PCI address", "unknown", "the driver does not tell it",
                  "see nvidia-smi and dmesg");
        out->gpus.push_back(gpu);
        return;
    }
    std::string bus_id(plain);
    std::ranges::transform(bus_id, bus_id.begin(), [](unsigned char digit) {
        return static_cast<char>(tolower(digit));
    });
    gpu.place = files.place("/sys/bus/pci/devices/" + bus_id);
    gpu.ok("PCI address", bus_id);
    look_at_export(cuda, device, &gpu);
    look_at_bar1(files, cuda, device, bus_id, &gpu);
    out->gpus.push_back(gpu);
}

} // namespace

void look_at_gpus(const tree &files, report *out)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    int count     = 0;

    if (library == nullptr) {
        out->machine.fails("CUDA driver", "no libcuda.so.1", dlerror(),
                           no_driver);
        return;
    }
    const driver *cuda = driver::get(true);
    if (cuda == nullptr) {
        explain(files, library, &out->machine);
    } else {
        out->machine.ok("CUDA driver", version_of(library));
        cuda->device_get_count(&count);
    }
    for (int i = 0; i < count; ++i) {
        look_at_gpu(files, *cuda, i, out);
    }
    dlclose(library);
}

} // namespace ucx_ib_dmabuf::info
