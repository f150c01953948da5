// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <loader/enable.h>

namespace ucx_ib_dmabuf::info {
namespace {

using std::filesystem::exists;

// Each NIC's "dma-buf import" and each GPU's "dma-buf export" find what a
// kernel or a module lacks.
void check_versions(json *out)
{
    const auto add_version = [&](const char *what, const char *path) {
        const std::string found = line_of(root + path);
        add(out, ok, what, found.empty() ? "unknown" : found);
    };
    const bool peer_memory = exists(root + "/sys/module/nvidia_peermem");

    add_version("kernel", "/proc/sys/kernel/osrelease");
    add_version("NVIDIA module", "/proc/driver/nvidia/version");
    add(out, ok, "peer memory",
        std::string("nvidia_peermem is ") + (peer_memory ? "" : "not ") +
            "loaded; not needed");
}

// Returns the number at the beginning of a line of /proc/self/FILE; UINT64_MAX
// if there is none, as for "unlimited".
uint64_t number(const char *file, std::string_view line, int base = 10)
{
    const std::string text = line_of(root + "/proc/self/" + file, line);
    char *end              = nullptr;
    const uint64_t found   = strtoull(text.c_str(), &end, base);
    return (end == text.c_str()) ? UINT64_MAX : found;
}

// Registered host memory and the rings of NICs are locked.
void check_limits(json *out)
{
    constexpr uint64_t enough_locked = 64 << 20, least = 64, usual = 1024;
    constexpr unsigned ipc_lock = 14; // CAP_IPC_LOCK: no limit
    const uint64_t locked       = number("limits", "Max locked memory"),
                   open         = number("limits", "Max open files"),
                   rights       = number("status", "CapEff:", 16);
    const bool exempt =
        (rights != UINT64_MAX) && ((rights >> ipc_lock & 1) != 0);

    if (!exists(root + "/proc/self/limits")) {
        add(out, warning, "limits", "unknown", "there is no /proc/self/limits",
            "mount /proc, and see 'ulimit -l' and 'ulimit -n'");
        return;
    }
    diagnose(
        out, "locked memory",
        (locked == UINT64_MAX) ? "unlimited"
        : exempt               ? size_text(locked) +
                       ", which does not hold for this user (CAP_IPC_LOCK)"
                 : size_text(locked),
        {{(locked != UINT64_MAX) && !exempt,
          locked < enough_locked ? fails : warning,
          "NICs lock the host memory that they reach, messages that are staged "
          "and their own queues, and registrations fail beyond that",
          "raise it: 'ulimit -l unlimited', 'memlock' in "
          "/etc/security/limits.conf, LimitMEMLOCK= of the service that starts "
          "jobs, or --ulimit memlock=-1 of the container"}});
    diagnose(
        out, "open files",
        (open == UINT64_MAX) ? "unlimited" : std::to_string(open),
        {{open < usual, open < least ? fails : warning,
          "each NIC and each connection needs some, and each export of a "
          "dma-buf one for a moment: an export fails where there is none left",
          "raise it: 'ulimit -n 65536', 'nofile' in /etc/security/limits.conf, "
          "or LimitNOFILE= of the service that starts jobs"}});
}

// Devices other than GPUs and NICs do not matter.
void check_iommu(json *out)
{
    const auto is_translated = [&](const std::string &device) {
        const std::string at   = root + "/sys/bus/pci/devices/" + device;
        const std::string kind = line_of(at + "/class").substr(0, 4);
        return ((kind == "0x02") || (kind == "0x03")) &&
               (line_of(at + "/iommu_group/type") != "identity");
    };
    const auto devices = list(root + "/sys/bus/pci/devices");
    const bool in_use  = !list(root + "/sys/class/iommu").empty();

    if (!exists(root + "/sys/class")) {
        add(out, warning, "/sys", "not there",
            "these are not known: IOMMU, ACS, distances of GPUs and NICs",
            "mount it in the container, read only will do");
        return;
    }
    diagnose(
        out, "IOMMU",
        in_use ? "in use, GPUs and NICs pass through" : "none is in use",
        {{in_use && std::ranges::any_of(devices, is_translated), warning,
          "a NIC's accesses to a GPU's memory may be translated or refused",
          "test the path (--prove); if it fails, boot with iommu=pt, or switch "
          "the IOMMU off",
          "in use"}});
}

// The preloaded library loads the module, if one is named.
void check_plugin(json *out)
{
    const std::string module = variable("UCX_IB_DMABUF_MODULE");
    std::vector<std::pair<std::string, std::string>> ways; // and their files

    for (const std::string &word : split(variable("LD_PRELOAD"), ": ")) {
        if (word.find("libucx_ib_dmabuf_preload.so") != word.npos) {
            ways.emplace_back("LD_PRELOAD: " + word, word);
        }
    }
    if (!ways.empty() && !module.empty()) {
        ways.emplace_back("UCX_IB_DMABUF_MODULE: " + module, module);
    }
    for (const std::string &word : split(variable("UCX_PLUGIN_PATH"), ":")) {
        if (exists(word + "/libuct_ib_dmabuf.so")) {
            ways.emplace_back("UCX_PLUGIN_PATH: " + word,
                              word + "/libuct_ib_dmabuf.so");
        }
    }
    const auto wrong = std::ranges::find_if(ways, [](const auto &each) {
        return dlopen(each.second.c_str(), RTLD_LAZY) == nullptr;
    });
    const bool loads = wrong == ways.end();
    diagnose(out, "plug-in",
             !loads          ? wrong->first
             : !ways.empty() ? ways.front().first
                             : "not loaded in this shell; 'ucx-dmabuf-run "
                               "COMMAND' starts a program with it",
             {{!loads, fails,
               loads ? ""
                     : std::string(dlerror()) +
                           ": the dynamic linker and UCX go on without it",
               "set the path where it is installed, or start programs with "
               "ucx-dmabuf-run"}});
}

// Whether UCX enables one of these names by its list. UCX strips no blanks
// there. "\" before a word excludes aliases, all names but the first.
bool is_enabled(const std::string &list, const std::string &names)
{
    const bool negated  = list.starts_with('^');
    const auto words    = split(list.substr(negated ? 1 : 0), ",");
    const auto known    = split(names, ",");
    const auto means_it = [&](const std::string &word) {
        return word.starts_with('\\') ? word.substr(1) == known.front()
                                      : std::ranges::count(known, word) != 0;
    };

    return list.empty() || (words == std::vector<std::string>{"all"}) ||
           (negated != std::ranges::any_of(words, means_it));
}

void check_switches(json *out)
{
    const int enabled         = read_enable();
    const std::string modules = variable("UCX_MODULES");
    const std::string hooks   = variable("UCX_MEM_CUDA_HOOK_MODE");

    if (enabled != 1) {
        add(out, fails, "UCX_IB_DMABUF_ENABLE",
            variable("UCX_IB_DMABUF_ENABLE"),
            (enabled == 0) ? "it switches the plug-in off"
                           : "UCX knows y, yes, on, 1, n, no, off and 0; "
                             "a wrong value switches the plug-in off",
            "unset it");
    }
    if (!variable("UCX_PLUGIN_PATH").empty() &&
        !is_enabled(modules, "dmabuf")) {
        add(out, fails, "UCX_MODULES", modules,
            "UCX loads no other modules than these",
            "have dmabuf in it, or unset it");
    }
    if ((hooks == "none") || (hooks == "reloc")) {
        add(out, warning, "UCX_MEM_CUDA_HOOK_MODE", hooks,
            "not all releases of CUDA memory are seen, so that the driver "
            "is asked at each use, which is slower",
            "unset it");
    }
}

void check_transports(json *out)
{
    // Each transport with all of its names, its own first.
    constexpr const char *by_nic[] = {
        "rc_mlx5,rc_x,rc,ib", "rc_verbs,rc_v,rc,ib", "dc_mlx5,dc_x,dc,ib",
        "ud_mlx5,ud_x,ud,ib", "ud_verbs,ud_v,ud,ib", "srd,ib"};
    const std::string tls = variable("UCX_TLS");
    const auto is_on      = [&](const char *names) {
        return is_enabled(tls, names);
    };

    if (std::ranges::none_of(by_nic, is_on)) {
        add(out, fails, "UCX_TLS", tls,
            "none of these transports uses a NIC's RDMA",
            "have rc and cuda in it, or unset it");
    } else if (!is_on("cuda_copy,cuda")) {
        add(out, fails, "UCX_TLS", tls,
            "without cuda UCX takes GPU memory for the host's",
            "have cuda in it, or unset it");
    }
}

} // namespace

void check_machine(json *out)
{
    check_versions(out);
    check_limits(out);
    check_iommu(out);
}

void check_environment(json *out)
{
    check_plugin(out);
    check_switches(out);
    check_transports(out);
}

} // namespace ucx_ib_dmabuf::info
