// SPDX-License-Identifier: BSD-3-Clause
#include "look.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

namespace ucx_ib_dmabuf::info {
namespace {

// Linux 5.12 introduced dma-buf registration (UVERBS_METHOD_REG_DMABUF_MR).
void look_at_kernel(const tree &files, part *out)
{
    const std::string release = files.first_line("/proc/sys/kernel/osrelease");
    unsigned major = 0, minor = 0;

    if (sscanf(release.c_str(), "%u.%u", &major, &minor) != 2) {
        out->warns("kernel", "unknown",
                   "/proc/sys/kernel/osrelease cannot be read",
                   "mount /proc, and see that it is Linux 5.12 or later");
    } else if (major * 1000 + minor < 5012) {
        out->warns("kernel", release,
                   "NICs register dma-bufs from Linux 5.12 on, older ones only "
                   "where a distribution has brought that back",
                   "update the kernel if 'dma-buf import' of a NIC fails");
    } else {
        out->ok("kernel", release);
    }
}

// If a device's class or vendor cannot be read, nothing is known.
void look_at_hardware(const tree &files, report *out)
{
    const auto devices = files.list("/sys/bus/pci/devices");
    bool known = !devices.empty(), gpu = false, nic = false;

    for (const std::string &device : devices) {
        const std::string at     = "/sys/bus/pci/devices/" + device;
        const std::string kind   = files.first_line(at + "/class");
        const std::string vendor = files.first_line(at + "/vendor");
        known &= !kind.empty() && !vendor.empty();
        gpu |= kind.starts_with("0x03") && (vendor == "0x10de");
        // InfiniBand, or a vendor that also makes RDMA NICs.
        nic |= kind.starts_with("0x0207") ||
               (kind.starts_with("0x02") &&
                std::ranges::count(std::to_array<std::string_view>(
                                       {"0x15b3", "0x14e4", "0x8086", "0x1d0f",
                                        "0x1414", "0x1dd8", "0x1077"}),
                                   vendor) != 0);
    }
    out->no_gpu = known && !gpu;
    out->no_nic = known && !nic && files.list("/sys/class/infiniband").empty();
}

void look_at_module(const tree &files, bool no_gpu, part *out)
{
    const std::string version = files.first_line("/proc/driver/nvidia/version");

    if (version.empty() && no_gpu) {
        out->warns(
            "NVIDIA module", "none", "PCI has no NVIDIA GPU",
            "use a machine with one, or pass one to the virtual machine");
    } else if (version.empty()) {
        out->warns("NVIDIA module", "unknown",
                   "there is no /proc/driver/nvidia/version: the kernel module "
                   "nvidia is not loaded, or this container does not show it",
                   "load NVIDIA's open kernel module, or pass GPUs to the "
                   "container with NVIDIA's container toolkit");
    } else if (version.find("Open") == std::string::npos) {
        out->warns("NVIDIA module", version,
                   "it is the closed kernel module, which exports no dma-bufs",
                   "install NVIDIA's open kernel modules");
    } else {
        out->ok("NVIDIA module", version);
    }
    out->ok("peer memory", files.has("/sys/module/nvidia_peermem")
                               ? "nvidia_peermem is loaded; not needed"
                               : "nvidia_peermem is not loaded; not needed");
}

// Returns the soft limit, in bytes or as a count; UINT64_MAX: unlimited.
uint64_t limit(const tree &files, std::string_view name)
{
    std::istringstream lines(files.all_of("/proc/self/limits"));
    unsigned long long found = 0;
    std::string line;

    while (std::getline(lines, line)) {
        if (line.starts_with(name) &&
            (sscanf(line.c_str() + name.size(), "%llu", &found) == 1)) {
            return found;
        }
    }
    return UINT64_MAX;
}

// CAP_IPC_LOCK: the limit does not apply to the process.
bool may_lock_all(const tree &files)
{
    constexpr unsigned ipc_lock = 14;
    const std::string status    = files.all_of("/proc/self/status");
    const size_t at             = status.find("CapEff:");
    unsigned long long rights   = 0;

    return (at != status.npos) &&
           (sscanf(status.c_str() + at, "CapEff: %llx", &rights) == 1) &&
           ((rights >> ipc_lock & 1) != 0);
}

// Registered host memory and the rings of NICs are locked.
void look_at_locked_memory(const tree &files, part *out)
{
    constexpr uint64_t enough = 64 << 20;
    const uint64_t found      = limit(files, "Max locked memory");
    constexpr char cause[] =
        "NICs lock the host memory that they reach, messages that are staged "
        "and their own queues, and registrations fail beyond that";
    constexpr char remedy[] =
        "raise it: 'ulimit -l unlimited', 'memlock' in "
        "/etc/security/limits.conf, LimitMEMLOCK= of the service that starts "
        "jobs, or --ulimit memlock=-1 of the container";

    if (found == UINT64_MAX) {
        out->ok("locked memory", "unlimited");
    } else if (may_lock_all(files)) {
        out->ok("locked memory", size_text(found) +
                                     ", which does not hold for this user "
                                     "(CAP_IPC_LOCK)");
    } else if (found < enough) {
        out->fails("locked memory", size_text(found), cause, remedy);
    } else {
        out->warns("locked memory", size_text(found), cause, remedy);
    }
}

void look_at_open_files(const tree &files, part *out)
{
    constexpr uint64_t least = 64, usual = 1024;
    const uint64_t found = limit(files, "Max open files");
    const std::string text =
        (found == UINT64_MAX) ? "unlimited" : std::to_string(found);
    constexpr char cause[] =
        "each NIC and each connection needs some, and each export of a dma-buf "
        "one for a moment: an export fails where there is none left";
    constexpr char remedy[] =
        "raise it: 'ulimit -n 65536', 'nofile' in /etc/security/limits.conf, "
        "or LimitNOFILE= of the service that starts jobs";

    if (found < least) {
        out->fails("open files", text, cause, remedy);
    } else if (found < usual) {
        out->warns("open files", text, cause, remedy);
    } else {
        out->ok("open files", text);
    }
}

// Devices other than GPUs and NICs do not matter.
void look_at_iommu(const tree &files, part *out)
{
    const auto is_translated = [&](const std::string &device) {
        const std::string at   = "/sys/bus/pci/devices/" + device;
        const std::string kind = files.first_line(at + "/class").substr(0, 4);
        return ((kind == "0x02") || (kind == "0x03")) &&
               (files.first_line(at + "/iommu_group/type") != "identity");
    };

    if (!files.has("/sys/class")) {
        out->warns("/sys", "not there",
                   "what it tells is not known: IOMMU, ACS, how far GPUs and "
                   "NICs are apart",
                   "mount it in the container, read only will do");
    } else if (files.list("/sys/class/iommu").empty()) {
        out->ok("IOMMU", "none is in use");
    } else if (std::ranges::none_of(files.list("/sys/bus/pci/devices"),
                                    is_translated)) {
        out->ok("IOMMU", "in use, GPUs and NICs pass through");
    } else {
        out->warns("IOMMU", "in use",
                   "what a NIC reads and writes in a GPU's memory may be "
                   "translated or refused",
                   "see whether the proof carries (--prove); if not, boot "
                   "with iommu=pt, or switch the IOMMU off");
    }
}

} // namespace

std::string size_text(uint64_t bytes)
{
    constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto number                   = static_cast<double>(bytes);
    unsigned unit                 = 0;
    char text[32];

    while ((number >= 1024) && (unit < 4)) {
        number /= 1024;
        ++unit;
    }
    snprintf(text, sizeof(text), "%.4g %s", number, units[unit]);
    return text;
}

void look_at_machine(const tree &files, report *out)
{
    look_at_hardware(files, out);
    look_at_kernel(files, &out->machine);
    look_at_module(files, out->no_gpu, &out->machine);
    if (files.has("/proc/self/limits")) {
        look_at_locked_memory(files, &out->machine);
        look_at_open_files(files, &out->machine);
    } else {
        out->machine.warns("limits", "unknown", "there is no /proc/self/limits",
                           "mount /proc, and see 'ulimit -l' and 'ulimit -n'");
    }
    look_at_iommu(files, &out->machine);
}

} // namespace ucx_ib_dmabuf::info
