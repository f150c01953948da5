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

// The bridges in front of a device: "pci0000:00", "0000:00:01.0", ...
using route = std::vector<std::string>;

route route_to(const json &device)
{
    return split(device.value("place", "/devices").substr(8), "/");
}

// The number of bridges that two devices are both behind, host bridges
// included.
size_t shared(const route &one, const route &other)
{
    const auto ends = std::ranges::mismatch(one, other);
    return static_cast<size_t>(ends.in1 - one.begin());
}

const char *distance(const json &gpu, const json &nic)
{
    const route to_gpu = route_to(gpu), to_nic = route_to(nic);

    if (to_gpu.empty() || to_nic.empty()) {
        return "?";
    }
    switch (const size_t bridges = shared(to_gpu, to_nic)) {
    case 0:
        return ((gpu.at("numa") >= 0) && (gpu.at("numa") == nic.at("numa")))
                   ? "NODE"
                   : "SYS";
    case 1:
        return "PHB";
    default:
        return (std::max(to_gpu.size(), to_nic.size()) - bridges <= 2) ? "PIX"
                                                                       : "PXB";
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
void check_acs(const route &gpu, const route &nic, json *out)
{
    // Each is read once: root gets 4 KiB, word by word from the device.
    static std::map<std::string, std::optional<bool>> known;
    bool readable = true;
    std::string redirecting;

    for (const auto *to : {&gpu, &nic}) {
        for (size_t i = std::max<size_t>(shared(gpu, nic), 1);
             i + 1 < to->size(); ++i) {
            const std::string &bridge  = (*to)[i];
            const auto [found, is_new] = known.try_emplace(bridge);
            if (is_new) {
                found->second = redirects(
                    file(root + "/sys/bus/pci/devices/" + bridge + "/config"));
            }
            readable &= found->second.has_value();
            if (found->second.value_or(false)) {
                redirecting += (redirecting.empty() ? "" : ", ") + bridge;
            }
        }
    }
    diagnose(
        out, "ACS", readable ? "off" : "unknown: only root reads it",
        {{!redirecting.empty(), warning,
          "the bridges redirect traffic between the two up to the host "
          "bridge, which is slow or loses data",
          "switch ACS off in the BIOS or with setpci, unless virtual machines "
          "need it",
          "on, at " + redirecting}});
}

void check_distance(const std::string &found, json *out)
{
    constexpr char remedy[] =
        "use a NIC that is nearer to the GPU (UCX_NET_DEVICES), or test the "
        "path (--prove)";

    diagnose(out, "distance",
             (found != "?") ? found
                            : "unknown: a NIC in software, or a GPU that "
                              "/sys does not show",
             {{found == "SYS", warning, "messages cross the link between CPUs",
               remedy},
              {found == "NODE", warning, "messages cross two host bridges",
               remedy}});
}

} // namespace

void check_pairs(json *report)
{
    for (const json &gpu : (*report)["gpus"]) {
        for (const json &nic : (*report)["nics"]) {
            json pair{{"gpu", gpu.at("name")},
                      {"nic", nic.at("name")},
                      {"state", "ok"},
                      {"distance", distance(gpu, nic)},
                      {"checks", json::array()}};

            check_distance(pair.at("distance"), &pair);
            if (pair.at("distance") != "?") {
                check_acs(route_to(gpu), route_to(nic), &pair);
            }
            if (std::ranges::max({state_of(gpu), state_of(nic),
                                  state_of((*report)["machine"])}) == fails) {
                raise_state(&pair, fails);
            }
            (*report)["pairs"].push_back(pair);
        }
    }
}

} // namespace ucx_ib_dmabuf::info
