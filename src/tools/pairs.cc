// SPDX-License-Identifier: BSD-3-Clause
#include "nics.h"
#include "report.h"
#include <array>
#include <cstring>
#include <optional>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/path/path_check.h>

namespace ucx_ib_dmabuf::info {
namespace {

// The bridges in front of a device: "pci0000:00", "0000:00:01.0", ...
using route = std::vector<std::string>;

route route_to(const json &device)
{
    return split(device.value("place", "/devices").substr(8), "/");
}

// The number of bridges, host bridges included, that both devices are behind.
size_t shared(const route &one, const route &other)
{
    const auto ends = std::ranges::mismatch(one, other);
    return static_cast<size_t>(ends.in1 - one.begin());
}

// In terms of nvidia-smi's topology.
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
// Completion Redirect, Egress Control). Only root reads more than 64 bytes.
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

void check_acs(const route &gpu, const route &nic, json *out)
{
    bool readable = true;
    std::string redirecting;

    for (const auto *to : {&gpu, &nic}) {
        for (size_t i = std::max<size_t>(shared(gpu, nic), 1);
             i + 1 < to->size(); ++i) {
            const std::string &bridge = (*to)[i];
            std::string config        = root + "/sys/bus/pci/devices/";
            config.append(bridge).append("/config");
            const std::optional<bool> found = redirects(file(config));
            readable &= found.has_value();
            if (found.value_or(false)) {
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
            if (std::max({state_of(gpu), state_of(nic),
                          state_of((*report)["machine"])}) == fails) {
                raise_state(&pair, fails);
            }
            (*report)["pairs"].push_back(pair);
        }
    }
}

namespace {

// Size of the writes that measure bandwidth; a GPU's buffer is larger.
constexpr uint32_t write_size = 256 << 10;

struct {
    std::string message, remedy;
} last_warning;

void keep_warning(const char *message, const char *remedy)
{
    last_warning = {
        message, (remedy != nullptr) ? remedy : "see docs/troubleshooting.md"};
}

// Measures the bandwidth of RDMA writes, in bytes a nanosecond. Returns the
// error if one fails.
std::optional<text> measure(loopback *nic, const registered_buffer &from,
                            const registered_buffer &to, double *result)
{
    std::array<transfer, loopback::max_transfers> many;
    const transfer first{verb::write, from, to, 8}; // is slower

    std::optional<text> failure = nic->run({&first, 1});
    if (failure) {
        return failure;
    }
    many.fill({verb::write, from, to, write_size});
    const uint64_t begin = nanoseconds_now();
    failure              = nic->run(many);
    *result              = static_cast<double>(write_size) * many.size() /
              static_cast<double>(nanoseconds_now() - begin);
    return failure;
}

void add_bandwidth(const protection_domain &pd, const registered_buffer &gpu,
                   json *out)
{
    const host_pages host(pd, 2 * size_t{write_size});
    loopback to(pd);
    double beside = 0, found = 0;

    if (!host.registered() || (to.problem() != nullptr)) {
        return;
    }
    std::optional<text> failure =
        measure(&to, host.at(), host.at() + write_size, &beside);
    if (!failure) {
        failure = measure(&to, host.at(), gpu, &found);
    }
    if (failure) {
        add(out, warning, "bandwidth", "could not be measured",
            failure->c_str(), "see dmesg, and whether the machine is busy");
        return;
    }
    diagnose(
        out, "bandwidth",
        format("%.2f GB/s (host memory %.2f GB/s)", found, beside).c_str(),
        {{found < beside / 4, warning,
          "the way from the NIC to the GPU is much slower than to host memory",
          "see the distance of the two, and ACS"}});
}

void prove_pair(open_device *nic, const driver &cuda, int gpu, json *out)
{
    const protection_domain pd = nic->domain();
    CUdevice device            = 0;
    CUcontext context          = nullptr;
    registration *made         = nullptr;
    check_result found{path_state::untested, ""};
    cuda_vendor gpus(cuda);
    path_table table;
    reg_methods methods(
        pd, true, *nic, table,
        [&](int, reg_method method, const registered_buffer *probe) {
            return found = check_path(pd, gpus, gpu, method, *nic, probe);
        });

    // The GPU stays in use until this process ends.
    CUresult result = cuda.device_get(&device, gpu);
    if (result == CUDA_SUCCESS) {
        result = cuda.primary_ctx_retain(&context, device);
    }
    const auto buffer = gpus.allocate_probe_buffer(gpu);
    if (!buffer || (buffer->length < write_size)) {
        add(out, warning, "proof", "could not be made",
            (result == CUDA_SUCCESS) ? "no memory of the GPU can be had"
                                     : cuda.error(result).c_str(),
            "see nvidia-smi for what uses the GPU's memory, and its compute "
            "mode");
        return;
    }
    keep_warning("the GPU's memory is not exported, or the NIC does not take "
                 "it",
                 nullptr);
    dmabuf_exports memory(gpus, buffer->address, buffer->length);
    methods.reg({memory, gpu, buffer->address, buffer->length, true}, &made);
    if ((made == nullptr) && (found.state != path_state::broken)) {
        add(out, fails, "registration", "no", last_warning.message,
            last_warning.remedy);
        return;
    }
    diagnose(
        out, "proof", "every byte arrives",
        {{found.state == path_state::broken, fails, found.why.c_str(),
          "switch ACS off, boot with iommu=pt, or use a NIC that is nearer to "
          "the GPU (docs/troubleshooting.md)",
          "bytes do not arrive"},
         {found.state != path_state::proven, warning, found.why.c_str(),
          "see that a port is active, that the device reaches itself, and that "
          "'ulimit -l' is high",
          "could not be made"}});
    if (found.state == path_state::proven) {
        add_bandwidth(pd, *made, out);
    }
    if (made != nullptr) {
        methods.dereg(made);
    }
}

} // namespace

void prove_pairs(std::deque<open_device> &nics, json *report)
{
    const driver *cuda = driver::get(true);
    json &pairs        = (*report)["pairs"];

    tell_warnings_to(keep_warning);
    for (size_t i = 0; i < pairs.size(); ++i) {
        if (state_of(pairs[i]) != fails) { // else the cause was reported
            prove_pair(&nics[i % nics.size()], *cuda,
                       static_cast<int>(i / nics.size()), &pairs[i]);
        }
    }
}

} // namespace ucx_ib_dmabuf::info
