// SPDX-License-Identifier: BSD-3-Clause
#include "settings.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <string_view>
#include <unistd.h>

extern char **environ;

namespace ucx_ib_dmabuf::sim {
namespace {

constexpr const char *known_names[] = {
    "CUDA_SIM_BAR1_LIST",   "CUDA_SIM_BAR1_MIB",       "CUDA_SIM_CAPTURE",
    "CUDA_SIM_COHERENT",    "CUDA_SIM_DELAY",          "CUDA_SIM_DEVICES",
    "CUDA_SIM_DMABUF",      "CUDA_SIM_DRIVER_VERSION", "CUDA_SIM_FAIL",
    "CUDA_SIM_GONE",        "CUDA_SIM_HOST_PAGE",      "CUDA_SIM_LIBDIR",
    "CUDA_SIM_MEMORY_MIB",  "CUDA_SIM_NEEDS_CONTEXT",  "CUDA_SIM_NVLINKS",
    "CUDA_SIM_POOL_EXPORT", "CUDA_SIM_RANGE",          "CUDA_SIM_STATS",
};

void check_names()
{
    for (char **entry = environ; entry && *entry; ++entry) {
        std::string_view text(*entry);
        if (!text.starts_with("CUDA_SIM_"))
            continue;
        std::string_view name = text.substr(0, text.find('='));
        bool known            = false;
        for (const char *each : known_names)
            known |= name == each;
        if (!known)
            complain("there is no setting %.*s", int(name.size()), name.data());
    }
}

void read_number(const char *name, uint64_t low, uint64_t high, uint64_t scale,
                 uint64_t &value)
{
    const char *text = getenv(name);
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

void read_flag(const char *name, bool &value)
{
    const char *text = getenv(name);
    if (!text)
        return;
    if (!strcmp(text, "y") || !strcmp(text, "n"))
        value = *text == 'y';
    else
        complain("%s=%s: neither y nor n", name, text);
}

void read_dmabuf(DmabufMode &mode)
{
    const char *text = getenv("CUDA_SIM_DMABUF");
    if (!text)
        return;
    std::string_view word(text);
    if (word == "auto")
        mode = DmabufMode::automatic;
    else if (word == "udmabuf")
        mode = DmabufMode::udmabuf;
    else if (word == "stand-in")
        mode = DmabufMode::stand_in;
    else if (word == "none")
        mode = DmabufMode::none;
    else
        complain("CUDA_SIM_DMABUF=%s: none of auto, udmabuf, stand-in, none",
                 text);
}

// One of two words; the first stands for true.
void read_choice(const char *name, const char *yes, const char *no, bool &value)
{
    const char *text = getenv(name);
    if (!text)
        return;
    if (!strcmp(text, yes) || !strcmp(text, no))
        value = !strcmp(text, yes);
    else
        complain("%s=%s: neither %s nor %s", name, text, yes, no);
}

void read_gone(CUresult &value)
{
    uint64_t number = uint64_t(value);
    read_number("CUDA_SIM_GONE", 1, 999, 1, number);
    value = CUresult(number);
}

Settings read_settings()
{
    Settings s;
    s.driver_version = CUDA_VERSION;
    s.host_page      = uint64_t(sysconf(_SC_PAGESIZE));
    check_names();
    read_number("CUDA_SIM_DEVICES", 0, 16, 1, s.devices);
    read_number("CUDA_SIM_MEMORY_MIB", 2, 1 << 22, 1 << 20, s.memory_bytes);
    read_number("CUDA_SIM_BAR1_MIB", 0, 1 << 22, 1 << 20, s.bar1_bytes);
    read_number("CUDA_SIM_HOST_PAGE", 4096, 65536, 1, s.host_page);
    read_number("CUDA_SIM_DRIVER_VERSION", 11000, 99990, 1, s.driver_version);
    read_number("CUDA_SIM_NVLINKS", 0, 18, 1, s.nvlinks);
    read_flag("CUDA_SIM_POOL_EXPORT", s.pool_export);
    read_flag("CUDA_SIM_COHERENT", s.coherent);
    read_flag("CUDA_SIM_NEEDS_CONTEXT", s.needs_context);
    read_choice("CUDA_SIM_RANGE", "reservation", "segment",
                s.range_reservation);
    read_choice("CUDA_SIM_CAPTURE", "strict", "lenient", s.strict_capture);
    read_gone(s.gone);
    read_dmabuf(s.dmabuf);
    if (s.host_page & (s.host_page - 1)) {
        complain("CUDA_SIM_HOST_PAGE=%llu: not a power of two",
                 (unsigned long long)s.host_page);
        s.host_page = uint64_t(sysconf(_SC_PAGESIZE));
    }
    if (const char *file = getenv("CUDA_SIM_STATS"))
        s.stats_file = file;
    if (const char *file = getenv("CUDA_SIM_BAR1_LIST"))
        s.dmabuf_list = file;
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

} // namespace ucx_ib_dmabuf::sim
