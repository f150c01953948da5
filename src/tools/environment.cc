// SPDX-License-Identifier: BSD-3-Clause
#include "look.h"
#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <loader/enable.h>
#include <string_view>
#include <system_error>

namespace ucx_ib_dmabuf::info {
namespace {

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return (value == nullptr) ? "" : value;
}

// Returns why a library cannot be loaded; empty if it can.
std::string error_of(const std::string &library)
{
    return (dlopen(library.c_str(), RTLD_LAZY) == nullptr) ? dlerror() : "";
}

void look_at_way_in(part *out)
{
    constexpr char preload[] = "libucx_ib_dmabuf_preload.so";
    std::string found, bad, why;
    const auto note = [&](const std::string &way, const std::string &error) {
        (error.empty() ? found : bad) = way;
        why                           = error;
    };

    for (const std::string &word : split(variable("LD_PRELOAD"), ": ")) {
        if (found.empty() && (word.find(preload) != word.npos)) {
            note("LD_PRELOAD: " + word, error_of(word));
        }
    }
    const std::string plugin = variable("UCX_IB_DMABUF_MODULE");
    if (!found.empty() && !plugin.empty()) {
        const std::string error = error_of(plugin);
        if (!error.empty()) {
            found.clear();
            note("UCX_IB_DMABUF_MODULE: " + plugin, error);
        }
    }
    for (const std::string &word : split(variable("UCX_PLUGIN_PATH"), ":")) {
        const std::string file = word + "/libuct_ib_dmabuf.so";
        std::error_code error;
        if (found.empty() && std::filesystem::exists(file, error)) {
            note("UCX_PLUGIN_PATH: " + word, error_of(file));
        }
    }
    if (!found.empty()) {
        out->ok("plug-in", found);
    } else if (!bad.empty()) {
        out->fails("plug-in", bad,
                   why + ": the dynamic linker and UCX go on without it",
                   "set the path where it is installed, or start programs "
                   "with ucx-dmabuf-run");
    } else {
        out->ok("plug-in", "not loaded in this shell; 'ucx-dmabuf-run COMMAND' "
                           "starts a program with it");
    }
}

// Whether UCX enables one of these names by its list. UCX strips no blanks
// there; "\" before a word excludes aliases.
bool is_enabled(const std::string &list, std::string_view names)
{
    const bool negated = list.starts_with('^');
    const auto words   = split(list.substr(negated ? 1 : 0), ",");

    return list.empty() || (words == std::vector<std::string>{"all"}) ||
           negated != std::ranges::any_of(words, [&](const auto &word) {
               const bool strict = word.starts_with('\\');
               return names.find("," + word.substr(strict ? 1 : 0) + ",") !=
                      names.npos;
           });
}

void look_at_switches(part *out)
{
    const int enabled         = read_enable();
    const std::string modules = variable("UCX_MODULES");
    const std::string by_path = variable("UCX_PLUGIN_PATH");
    const std::string hooks   = variable("UCX_MEM_CUDA_HOOK_MODE");

    if (enabled != 1) {
        out->fails("UCX_IB_DMABUF_ENABLE", variable("UCX_IB_DMABUF_ENABLE"),
                   (enabled == 0) ? "it switches the plug-in off"
                                  : "UCX knows y, yes, on, 1, n, no, off and "
                                    "0; a wrong value switches the plug-in off",
                   "unset it");
    }
    if (!by_path.empty() && !is_enabled(modules, ",dmabuf,")) {
        out->fails("UCX_MODULES", modules,
                   "UCX loads no other modules than these",
                   "have dmabuf in it, or unset it");
    }
    if ((hooks == "none") || (hooks == "reloc")) {
        out->warns("UCX_MEM_CUDA_HOOK_MODE", hooks,
                   "not all releases of CUDA memory are seen, so that the "
                   "driver is asked at each use, which is slower",
                   "unset it");
    }
}

void look_at_transports(part *out)
{
    // Each transport with all of its names.
    constexpr std::string_view by_nic[] = {
        ",rc_mlx5,rc_x,rc,ib,", ",rc_verbs,rc_v,rc,ib,", ",dc_mlx5,dc_x,dc,ib,",
        ",ud_mlx5,ud_x,ud,ib,", ",ud_verbs,ud_v,ud,ib,", ",srd,ib,"};
    const std::string tls = variable("UCX_TLS");
    const auto is_on      = [&](std::string_view names) {
        return is_enabled(tls, names);
    };

    if (std::ranges::none_of(by_nic, is_on)) {
        out->fails("UCX_TLS", tls, "none of these transports uses a NIC's RDMA",
                   "have rc and cuda in it, or unset it");
    } else if (!is_on(",cuda_copy,cuda,")) {
        out->fails("UCX_TLS", tls,
                   "without cuda UCX takes GPU memory for the host's",
                   "have cuda in it, or unset it");
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
