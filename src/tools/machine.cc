// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cstdio>

namespace ucx_ib_dmabuf::info {
namespace {

// Linux 5.12 introduced dma-buf registration (UVERBS_METHOD_REG_DMABUF_MR).
void check_kernel(const tree &files, part *out)
{
    const std::string release = files.line("/proc/sys/kernel/osrelease");
    unsigned major = 0, minor = 0;
    const bool known = sscanf(release.c_str(), "%u.%u", &major, &minor) == 2;
    const fault faults[] = {
        {!known, warning, "/proc/sys/kernel/osrelease cannot be read",
         "mount /proc, and see that it is Linux 5.12 or later"},
        {major * 1000 + minor < 5012, warning,
         "NICs register dma-bufs from Linux 5.12 on, and on older ones with a "
         "backport of the distribution",
         "update the kernel if 'dma-buf import' of a NIC fails"}};

    out->diagnose("kernel", known ? release : "unknown", faults);
}

void check_module(const tree &files, part *out)
{
    const std::string version = files.line("/proc/driver/nvidia/version");
    const bool peer_memory    = files.has("/sys/module/nvidia_peermem");
    const fault faults[]      = {
             {version.empty(), warning,
              "there is no /proc/driver/nvidia/version: the kernel module nvidia is "
                   "not loaded, there is no NVIDIA GPU, or this container does not show "
                   "it",
              "see 'lspci -d 10de:'; load NVIDIA's open kernel module, or pass GPUs "
                   "to the container or virtual machine",
              "unknown"},
             {version.find("Open") == std::string::npos, warning,
              "it is the closed kernel module, which exports no dma-bufs",
              "install NVIDIA's open kernel modules"}};

    out->diagnose("NVIDIA module", version, faults);
    out->add(ok, "peer memory",
             std::string("nvidia_peermem is ") + (peer_memory ? "" : "not ") +
                 "loaded; not needed");
}

// Returns the soft limit, in bytes or as a count; UINT64_MAX: unlimited.
uint64_t limit(const tree &files, std::string_view name)
{
    unsigned long long found = UINT64_MAX;

    sscanf(files.line("/proc/self/limits", name).c_str(), "%llu", &found);
    return found;
}

// CAP_IPC_LOCK: the limit does not apply to the process.
bool may_lock_all(const tree &files)
{
    constexpr unsigned ipc_lock = 14;
    unsigned long long rights   = 0;

    sscanf(files.line("/proc/self/status", "CapEff:").c_str(), "%llx", &rights);
    return (rights >> ipc_lock & 1) != 0;
}

// Registered host memory and the rings of NICs are locked.
void check_locked_memory(const tree &files, part *out)
{
    constexpr uint64_t enough = 64 << 20;
    const uint64_t found      = limit(files, "Max locked memory");
    const bool unlimited      = found == UINT64_MAX;
    const bool exempt         = may_lock_all(files);
    const fault faults[]      = {
             {!unlimited && !exempt, found < enough ? fails : warning,
              "NICs lock the host memory that they reach, messages that are staged "
                   "and their own queues, and registrations fail beyond that",
              "raise it: 'ulimit -l unlimited', 'memlock' in "
                   "/etc/security/limits.conf, LimitMEMLOCK= of the service that starts "
                   "jobs, or --ulimit memlock=-1 of the container"}};

    out->diagnose("locked memory",
                  unlimited ? "unlimited"
                  : exempt
                      ? size_text(found) + ", which does not hold for this "
                                           "user (CAP_IPC_LOCK)"
                      : size_text(found),
                  faults);
}

void check_open_files(const tree &files, part *out)
{
    constexpr uint64_t least = 64, usual = 1024;
    const uint64_t found = limit(files, "Max open files");
    const fault faults[] = {
        {found < usual, found < least ? fails : warning,
         "each NIC and each connection needs some, and each export of a "
         "dma-buf one for a moment: an export fails where there is none left",
         "raise it: 'ulimit -n 65536', 'nofile' in /etc/security/limits.conf, "
         "or LimitNOFILE= of the service that starts jobs"}};

    out->diagnose("open files",
                  (found == UINT64_MAX) ? "unlimited" : std::to_string(found),
                  faults);
}

// Devices other than GPUs and NICs do not matter.
void check_iommu(const tree &files, part *out)
{
    const auto is_translated = [&](const std::string &device) {
        const std::string at   = "/sys/bus/pci/devices/" + device;
        const std::string kind = files.line(at + "/class").substr(0, 4);
        return ((kind == "0x02") || (kind == "0x03")) &&
               (files.line(at + "/iommu_group/type") != "identity");
    };
    const bool in_use    = !files.list("/sys/class/iommu").empty();
    const fault faults[] = {
        {in_use && std::ranges::any_of(files.list("/sys/bus/pci/devices"),
                                       is_translated),
         warning,
         "a NIC's accesses to a GPU's memory may be translated or refused",
         "test the path (--prove); if it fails, boot with iommu=pt, or switch "
         "the IOMMU off",
         "in use"}};

    if (!files.has("/sys/class")) {
        out->add(warning, "/sys", "not there",
                 "these are not known: IOMMU, ACS, distances of GPUs and NICs",
                 "mount it in the container, read only will do");
        return;
    }
    out->diagnose("IOMMU",
                  in_use ? "in use, GPUs and NICs pass through"
                         : "none is in use",
                  faults);
}

} // namespace

void check_machine(const tree &files, part *out)
{
    check_kernel(files, out);
    check_module(files, out);
    if (files.has("/proc/self/limits")) {
        check_locked_memory(files, out);
        check_open_files(files, out);
    } else {
        out->add(warning, "limits", "unknown", "there is no /proc/self/limits",
                 "mount /proc, and see 'ulimit -l' and 'ulimit -n'");
    }
    check_iommu(files, out);
}

} // namespace ucx_ib_dmabuf::info
