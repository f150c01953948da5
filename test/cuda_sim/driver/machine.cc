// SPDX-License-Identifier: BSD-3-Clause
#include "machine.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string_view>

extern char **environ;

namespace ucx_ib_dmabuf::sim {
namespace {

// The names of all settings: those that are read here, and these.
std::set<std::string_view> &names()
{
    static std::set<std::string_view> all{"CUDA_SIM_DELAY", "CUDA_SIM_FAIL",
                                          "CUDA_SIM_LIBDIR"};
    return all;
}

const char *value_of(const char *name)
{
    names().insert(name);
    return getenv(name);
}

void check_names()
{
    for (char **entry = environ; entry && *entry; ++entry) {
        std::string_view text(*entry);
        std::string_view name = text.substr(0, text.find('='));
        if (name.starts_with("CUDA_SIM_") && !names().count(name))
            complain("there is no setting %.*s", int(name.size()), name.data());
    }
}

void read_number(const char *name, uint64_t low, uint64_t high, uint64_t scale,
                 uint64_t &value)
{
    const char *text = value_of(name);
    if (!text)
        return;
    char *end;
    uint64_t number = strtoull(text, &end, 0);
    if (end == text || *end || *text == '-' || number < low || number > high)
        complain("%s=%s: not a number from %llu to %llu", name, text,
                 (unsigned long long)low, (unsigned long long)high);
    else
        value = number * scale;
}

// Reads one of two words; the first stands for true.
void read_choice(const char *name, const char *yes, const char *no, bool &value)
{
    const char *text = value_of(name);
    if (!text)
        return;
    if (!strcmp(text, yes) || !strcmp(text, no))
        value = !strcmp(text, yes);
    else
        complain("%s=%s: neither %s nor %s", name, text, yes, no);
}

Settings read_settings()
{
    Settings s;
    s.driver_version = CUDA_VERSION;
    bool plain       = true;
    read_choice("CUDA_SIM_NODE", "plain", "gb200", plain);
    if (!plain) {
        s.gb200 = s.coherent = true;
        s.devices            = 4;
        s.memory_bytes       = 185ull << 30;
    }
    read_number("CUDA_SIM_DEVICES", 0, 16, 1, s.devices);
    read_number("CUDA_SIM_MEMORY_MIB", 2, 1 << 22, 1 << 20, s.memory_bytes);
    read_number("CUDA_SIM_BAR1_MIB", 0, 1 << 22, 1 << 20, s.bar1_bytes);
    read_number("CUDA_SIM_DRIVER_VERSION", 11000, 99990, 1, s.driver_version);
    bool all = true;
    if (const char *text = value_of("CUDA_SIM_POOL_EXPORT");
        text && strcmp(text, "chunk")) {
        read_choice("CUDA_SIM_POOL_EXPORT", "y", "n", all);
        s.pool_export = all ? Settings::all : Settings::none;
    }
    read_choice("CUDA_SIM_COHERENT", "y", "n", s.coherent);
    read_choice("CUDA_SIM_DMABUF", "auto", "none", s.dmabuf);
    read_choice("CUDA_SIM_IPC", "all", "own", s.ipc_all);
    if (const char *file = value_of("CUDA_SIM_STATS"))
        s.stats_file = file;
    if (const char *file = value_of("CUDA_SIM_BAR1_LIST"))
        s.dmabuf_list = file;
    check_names();
    return s;
}

} // namespace

const Settings &settings()
{
    // Never destroyed: calls may come while the process exits.
    static const Settings &all = *new Settings(read_settings());
    return all;
}

void complain(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fprintf(stderr, "cuda_sim: error: %s\n", line);
}

std::string gpu_name(int device)
{
    return "cuda_sim-gpu" + std::to_string(device);
}

PciPlace place_of(int device)
{
    constexpr unsigned domains[] = {0x8, 0x9, 0x18, 0x19};
    if (settings().gb200)
        return {domains[device % 4], 1 + unsigned(device) / 4};
    return {0, 0xc0 + unsigned(device)};
}

// A line of the list: size, flags, mode, count, exporter, inode, name.
uint64_t bar1_used(int device)
{
    FILE *list = fopen(settings().dmabuf_list.c_str(), "re");
    if (!list)
        return 0;
    char line[512], name[64];
    uint64_t sum = 0;
    while (fgets(line, sizeof(line), list)) {
        unsigned long long size;
        if (sscanf(line, "%llu %*s %*s %*s %*s %*s %63s", &size, name) == 2 &&
            name == gpu_name(device))
            sum += size;
    }
    fclose(list);
    return sum;
}

uint64_t bar1_free(int device)
{
    const uint64_t total = settings().bar1_bytes, used = bar1_used(device);
    return used < total ? total - used : 0;
}

} // namespace ucx_ib_dmabuf::sim
