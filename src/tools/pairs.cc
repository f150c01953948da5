// SPDX-License-Identifier: BSD-3-Clause
//
// The distance between a GPU and a NIC in the PCI tree, in terms of
// nvidia-smi's topology.
#include "look.h"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>

namespace ucx_ib_dmabuf::info {
namespace {

using way = std::vector<std::string>; // "pci0000:00", "0000:00:01.0", ...

way way_to(const pci_place &place)
{
    const size_t known = std::min(place.path.size(), sizeof("/devices/") - 1);
    return split(place.path.substr(known), "/");
}

size_t common(const way &one, const way &other)
{
    const auto ends = std::ranges::mismatch(one, other);
    return static_cast<size_t>(ends.in1 - one.begin());
}

const char *distance(const pci_place &gpu, const pci_place &nic)
{
    const way to_gpu = way_to(gpu), to_nic = way_to(nic);
    const size_t shared = common(to_gpu, to_nic);

    if (to_gpu.empty() || to_nic.empty()) {
        return "?";
    }
    if (shared >= 2) { // a bridge below the host bridge
        return (std::max(to_gpu.size(), to_nic.size()) - shared <= 2) ? "PIX"
                                                                      : "PXB";
    }
    if (shared == 1) {
        return "PHB";
    }
    return ((gpu.numa >= 0) && (gpu.numa == nic.numa)) ? "NODE" : "SYS";
}

// PCI's byte order is this machine's.
uint32_t number_at(std::string_view bytes, size_t at)
{
    uint32_t value = 0;
    memcpy(&value, bytes.data() + at, sizeof(value));
    return value;
}

enum class acs : uint8_t { off, redirects, unreadable };

// Whether a bridge redirects traffic between two devices behind it to the host
// bridge (PCI Express, "ACS Extended Capability": P2P Request Redirect,
// Completion Redirect, Egress Control). Without root only 64 bytes are read.
acs parse_acs(std::string_view config)
{
    constexpr uint32_t redirecting = 0x04 | 0x08 | 0x20;
    constexpr uint32_t acs_id      = 0x000d;
    size_t at                      = 0x100;

    if (config.size() <= at) {
        return acs::unreadable;
    }
    for (unsigned i = 0; (i < 64) && (at >= 0x100); ++i) {
        if (at + 8 > config.size()) {
            break;
        }
        const uint32_t head = number_at(config, at);
        if ((head & 0xffff) == acs_id) {
            return ((number_at(config, at + 4) >> 16 & redirecting) != 0)
                       ? acs::redirects
                       : acs::off;
        }
        at = head >> 20;
    }
    return acs::off;
}

// Reads each bridge once, for all devices behind it: root gets 4 KiB, which the
// kernel reads from the device word by word.
class bridges {
public:
    explicit bridges(const tree &files) : files_(files) {}

    acs acs_of(const std::string &device)
    {
        const auto [at, is_new] = known_.try_emplace(device, acs::off);
        if (is_new) {
            at->second = parse_acs(
                files_.all_of("/sys/bus/pci/devices/" + device + "/config"));
        }
        return at->second;
    }

private:
    const tree &files_;
    std::map<std::string, acs> known_;
};

// Checks the bridges between the two.
void look_at_acs(bridges *all, const pci_place &gpu, const pci_place &nic,
                 part *out)
{
    const way to_gpu = way_to(gpu), to_nic = way_to(nic);
    const size_t shared = common(to_gpu, to_nic);
    bool readable       = true;
    std::string redirecting;

    for (const way *each : {&to_gpu, &to_nic}) {
        for (size_t i = std::max<size_t>(shared, 1); i + 1 < each->size();
             ++i) {
            const acs found = all->acs_of((*each)[i]);
            readable &= found != acs::unreadable;
            if (found == acs::redirects) {
                redirecting += (redirecting.empty() ? "" : ", ") + (*each)[i];
            }
        }
    }
    if (!redirecting.empty()) {
        out->warns("ACS", "on, at " + redirecting,
                   "the bridges send what goes from one device to the other "
                   "up to the host's, which is slow, or loses it",
                   "switch ACS off in the BIOS or with setpci, unless virtual "
                   "machines need it");
    } else {
        out->ok("ACS", readable ? "off" : "unknown: only root reads it");
    }
}

void look_at_distance(bridges *all, const pci_place &gpu, const pci_place &nic,
                      pair *out)
{
    const std::string &found = out->distance;

    if (found == "?") {
        out->about.ok("distance", "unknown: a NIC in software, or a GPU that "
                                  "/sys does not show");
        return;
    }
    if ((found == "SYS") || (found == "NODE")) {
        out->about.warns("distance", found,
                         found == "SYS"
                             ? "what is sent crosses the link between CPUs"
                             : "what is sent crosses two host bridges",
                         "use a NIC that is nearer to the GPU "
                         "(UCX_NET_DEVICES), or prove that it carries "
                         "(--prove)");
    } else {
        out->about.ok("distance", found);
    }
    look_at_acs(all, gpu, nic, &out->about);
}

} // namespace

void look_at_pairs(const tree &files, report *out)
{
    bridges all(files);

    for (size_t g = 0; g < out->gpus.size(); ++g) {
        for (size_t n = 0; n < out->nics.size(); ++n) {
            const part &gpu = out->gpus[g];
            const part &nic = out->nics[n];
            pair made{g, n, distance(gpu.place, nic.place),
                      part{gpu.name + ", " + nic.name}, state::ok};

            look_at_distance(&all, gpu.place, nic.place, &made);
            made.how = made.about.worst();
            if (std::max({gpu.worst(), nic.worst(), out->machine.worst()}) ==
                state::fails) {
                made.how = state::fails;
            }
            out->pairs.push_back(made);
        }
    }
}

} // namespace ucx_ib_dmabuf::info
