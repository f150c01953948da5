// SPDX-License-Identifier: BSD-3-Clause
//
// The distance between a GPU and a NIC in the PCI tree, in terms of
// nvidia-smi's topology.
#include "report.h"
#include <cstring>
#include <map>
#include <optional>

namespace ucx_ib_dmabuf::info {
namespace {

// The number of bridges that two devices are both behind, host bridges
// included.
size_t shared(const pci_place &one, const pci_place &other)
{
    const auto ends = std::ranges::mismatch(one.route, other.route);
    return static_cast<size_t>(ends.in1 - one.route.begin());
}

const char *distance(const pci_place &gpu, const pci_place &nic)
{
    const size_t longest = std::max(gpu.route.size(), nic.route.size());

    if (gpu.route.empty() || nic.route.empty()) {
        return "?";
    }
    switch (const size_t bridges = shared(gpu, nic)) {
    case 0:
        return ((gpu.numa >= 0) && (gpu.numa == nic.numa)) ? "NODE" : "SYS";
    case 1:
        return "PHB";
    default:
        return (longest - bridges <= 2) ? "PIX" : "PXB";
    }
}

// PCI's byte order is this machine's.
uint32_t number_at(const std::string &bytes, size_t at)
{
    uint32_t value = 0;
    memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

// Whether a bridge redirects traffic between two devices behind it to the host
// bridge (PCI Express, "ACS Extended Capability": P2P Request Redirect,
// Completion Redirect, Egress Control). Without root only 64 bytes are read,
// and nothing is known.
std::optional<bool> redirects(const std::string &config)
{
    constexpr uint32_t redirecting = 0x04 | 0x08 | 0x20;
    constexpr uint32_t acs         = 0x000d;
    constexpr size_t first         = 0x100;
    size_t at                      = first;

    if (config.size() <= first) {
        return std::nullopt;
    }
    for (unsigned i = 0; (i < 64) && (at >= first) && (at + 8 <= config.size());
         ++i) {
        const uint32_t head = number_at(config, at);
        if ((head & 0xffff) == acs) {
            return (number_at(config, at + 4) >> 16 & redirecting) != 0;
        }
        at = head >> 20;
    }
    return false;
}

// Checks the bridges between the two.
void check_acs(const tree &files, const pci_place &gpu, const pci_place &nic,
               part *out)
{
    // Each is read once: root gets 4 KiB, word by word from the device.
    static std::map<std::string, std::optional<bool>> known;
    bool readable = true;
    std::string redirecting;

    for (const auto *route : {&gpu.route, &nic.route}) {
        for (size_t i = std::max<size_t>(shared(gpu, nic), 1);
             i + 1 < route->size(); ++i) {
            const std::string &bridge  = (*route)[i];
            const auto [found, is_new] = known.try_emplace(bridge);
            if (is_new) {
                found->second = redirects(
                    files.read("/sys/bus/pci/devices/" + bridge + "/config"));
            }
            readable &= found->second.has_value();
            if (found->second.value_or(false)) {
                redirecting += (redirecting.empty() ? "" : ", ") + bridge;
            }
        }
    }
    out->diagnose(
        "ACS", readable ? "off" : "unknown: only root reads it",
        {{!redirecting.empty(), warning,
          "the bridges redirect traffic between the two up to the host "
          "bridge, which is slow or loses data",
          "switch ACS off in the BIOS or with setpci, unless virtual machines "
          "need it",
          "on, at " + redirecting}});
}

void check_distance(const std::string &found, part *out)
{
    constexpr char remedy[] =
        "use a NIC that is nearer to the GPU (UCX_NET_DEVICES), or test the "
        "path (--prove)";

    out->diagnose("distance",
                  (found != "?") ? found
                                 : "unknown: a NIC in software, or a GPU that "
                                   "/sys does not show",
                  {{found == "SYS", warning,
                    "messages cross the link between CPUs", remedy},
                   {found == "NODE", warning, "messages cross two host bridges",
                    remedy}});
}

} // namespace

void check_pairs(const tree &files, report *out)
{
    for (size_t g = 0; g < out->gpus.size(); ++g) {
        for (size_t n = 0; n < out->nics.size(); ++n) {
            const part &gpu = out->gpus[g];
            const part &nic = out->nics[n];
            pair made{g, n, distance(gpu.place, nic.place),
                      part{gpu.name + ", " + nic.name}, ok};

            check_distance(made.distance, &made.about);
            if (made.distance != "?") {
                check_acs(files, gpu.place, nic.place, &made.about);
            }
            made.how =
                std::max({gpu.worst(), nic.worst(), out->machine.worst()});
            made.how = (made.how == fails) ? fails : made.about.worst();
            out->pairs.push_back(made);
        }
    }
}

} // namespace ucx_ib_dmabuf::info
