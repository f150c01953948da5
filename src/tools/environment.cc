// SPDX-License-Identifier: BSD-3-Clause
#include "look.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

namespace ucx_ib_dmabuf::info {
namespace {

std::string_view variable(const char *name)
{
    const char *value = getenv(name);
    return (value == nullptr) ? "" : value;
}

// Calls what with each word of a list; whether one of them was true.
template <class Test>
bool any_word(std::string_view list, const char *ends, Test what)
{
    while (!list.empty()) {
        const size_t end = list.find_first_of(ends);
        const auto word  = list.substr(0, end);
        if (!word.empty() && what(std::string(word))) {
            return true;
        }
        list = (end == list.npos) ? "" : list.substr(end + 1);
    }
    return false;
}

bool is_file(const std::string &path)
{
    std::error_code error;
    return std::filesystem::exists(path, error);
}

void look_at_way_in(part *out)
{
    constexpr char preload[] = "libucx_ib_dmabuf_preload.so";
    std::string found, gone;

    any_word(variable("LD_PRELOAD"), ": ", [&](const std::string &word) {
        if (word.find(preload) != word.npos) {
            (is_file(word) ? found : gone) = "LD_PRELOAD: " + word;
        }
        return !found.empty();
    });
    any_word(variable("UCX_PLUGIN_PATH"), ":", [&](const std::string &word) {
        if (found.empty() && is_file(word + "/libuct_ib_dmabuf.so")) {
            found = "UCX_PLUGIN_PATH: " + word;
        }
        return !found.empty();
    });
    if (!found.empty()) {
        out->ok("plug-in", found);
    } else if (!gone.empty()) {
        out->fails("plug-in", gone,
                   "that file is not there, and the dynamic linker goes on "
                   "without it",
                   "set the path where it is installed, or start programs "
                   "with ucx-dmabuf-run");
    } else {
        out->warns("plug-in", "not loaded",
                   "neither LD_PRELOAD nor UCX_PLUGIN_PATH names it here",
                   "start programs with it: ucx-dmabuf-run COMMAND");
    }
}

void look_at_switches(part *out)
{
    const std::string_view enable  = variable("UCX_IB_DMABUF_ENABLE");
    const std::string_view modules = variable("UCX_MODULES");
    const std::string_view by_path = variable("UCX_PLUGIN_PATH");
    const std::string_view hooks   = variable("UCX_MEM_CUDA_HOOK_MODE");

    if ((enable == "n") || (enable == "no") || (enable == "0") ||
        (enable == "off")) {
        out->fails("UCX_IB_DMABUF_ENABLE", std::string(enable),
                   "it switches the plug-in off", "unset it");
    }
    if (!by_path.empty() && !modules.empty() && (modules != "all") &&
        (modules[0] != '^') && !any_word(modules, ",", [](const auto &word) {
            return word == "dmabuf";
        })) {
        out->fails("UCX_MODULES", std::string(modules),
                   "UCX loads no other modules than these",
                   "add dmabuf to it, or unset it");
    }
    if ((hooks == "none") || (hooks == "reloc")) {
        out->warns("UCX_MEM_CUDA_HOOK_MODE", std::string(hooks),
                   "not all releases of CUDA memory are seen, so that the "
                   "driver is asked at each use, which is slower",
                   "unset it");
    }
}

bool uses_nic(const std::string &transport)
{
    constexpr std::string_view by_nic[] = {"all", "ib", "rc", "ud", "dc", "sr"};

    return (std::ranges::find(by_nic, transport) != std::end(by_nic)) ||
           transport.starts_with("rc_") || transport.starts_with("dc_") ||
           transport.starts_with("ud_");
}

bool knows_gpus(const std::string &transport)
{
    return (transport == "all") || transport.starts_with("cuda");
}

void look_at_transports(part *out)
{
    const std::string_view tls = variable("UCX_TLS");

    if (tls.empty() || (tls[0] == '^')) {
        return;
    }
    if (!any_word(tls, ",", uses_nic)) {
        out->fails("UCX_TLS", std::string(tls),
                   "none of these transports uses a NIC's RDMA",
                   "add rc and cuda to it, or unset it");
    } else if (!any_word(tls, ",", knows_gpus)) {
        out->fails("UCX_TLS", std::string(tls),
                   "without cuda UCX takes GPU memory for the host's",
                   "add cuda to it, or unset it");
    }
}

} // namespace

void look_at_environment(report *out)
{
    look_at_way_in(&out->environment);
    look_at_switches(&out->environment);
    look_at_transports(&out->environment);
}

} // namespace ucx_ib_dmabuf::info
