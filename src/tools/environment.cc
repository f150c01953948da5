// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cstdlib>
#include <dlfcn.h>
#include <loader/enable.h>

namespace ucx_ib_dmabuf::info {
namespace {

// The preloaded library loads the module, if one is named.
void check_plugin(part *out)
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
        const std::string file = word + "/libuct_ib_dmabuf.so";
        if (tree().has(file)) {
            ways.emplace_back("UCX_PLUGIN_PATH: " + word, file);
        }
    }
    for (const auto &[way, file] : ways) {
        if (dlopen(file.c_str(), RTLD_LAZY) == nullptr) {
            out->add(fails, "plug-in", way,
                     std::string(dlerror()) +
                         ": the dynamic linker and UCX go on without it",
                     "set the path where it is installed, or start programs "
                     "with ucx-dmabuf-run");
            return;
        }
    }
    out->add(ok, "plug-in",
             !ways.empty() ? ways.front().first
                           : "not loaded in this shell; 'ucx-dmabuf-run "
                             "COMMAND' starts a program with it");
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

void check_switches(part *out)
{
    const int enabled         = read_enable();
    const std::string modules = variable("UCX_MODULES");
    const std::string hooks   = variable("UCX_MEM_CUDA_HOOK_MODE");

    if (enabled != 1) {
        out->add(fails, "UCX_IB_DMABUF_ENABLE",
                 variable("UCX_IB_DMABUF_ENABLE"),
                 (enabled == 0) ? "it switches the plug-in off"
                                : "UCX knows y, yes, on, 1, n, no, off and 0; "
                                  "a wrong value switches the plug-in off",
                 "unset it");
    }
    if (!variable("UCX_PLUGIN_PATH").empty() &&
        !is_enabled(modules, "dmabuf")) {
        out->add(fails, "UCX_MODULES", modules,
                 "UCX loads no other modules than these",
                 "have dmabuf in it, or unset it");
    }
    if ((hooks == "none") || (hooks == "reloc")) {
        out->add(warning, "UCX_MEM_CUDA_HOOK_MODE", hooks,
                 "not all releases of CUDA memory are seen, so that the driver "
                 "is asked at each use, which is slower",
                 "unset it");
    }
}

void check_transports(part *out)
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
        out->add(fails, "UCX_TLS", tls,
                 "none of these transports uses a NIC's RDMA",
                 "have rc and cuda in it, or unset it");
    } else if (!is_on("cuda_copy,cuda")) {
        out->add(fails, "UCX_TLS", tls,
                 "without cuda UCX takes GPU memory for the host's",
                 "have cuda in it, or unset it");
    }
}

} // namespace

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return (value == nullptr) ? "" : value;
}

void check_environment(part *out)
{
    check_plugin(out);
    check_switches(out);
    check_transports(out);
}

} // namespace ucx_ib_dmabuf::info
