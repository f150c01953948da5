// SPDX-License-Identifier: BSD-3-Clause
#include "vendor.h"
#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace ucx_ib_dmabuf {

std::string cuda_vendor::identity(int gpu)
{
    std::ifstream file("/proc/driver/nvidia/version");
    std::string version, bus_id;
    char plain[32]  = "";
    CUdevice device = 0;
    std::error_code error;

    if (!std::getline(file, version) ||
        (cuda_.device_get(&device, gpu) != CUDA_SUCCESS) ||
        (cuda_.device_get_pci_bus_id(plain, sizeof(plain), device) !=
         CUDA_SUCCESS)) {
        return {};
    }
    for (const char *digit = plain; *digit != '\0'; ++digit) {
        bus_id += static_cast<char>(tolower(*digit));
    }
    // With the bridges above it.
    const std::filesystem::path place =
        std::filesystem::canonical("/sys/bus/pci/devices/" + bus_id, error);
    return (error ? bus_id : place.native()) + " " + version;
}

} // namespace ucx_ib_dmabuf
