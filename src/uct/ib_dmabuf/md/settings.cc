// SPDX-License-Identifier: BSD-3-Clause
#include "settings.h"
#include <cstddef>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

constexpr setting all_settings[] = {
    {"ENABLE", "y",
     "Register CUDA memory with InfiniBand and RoCE devices through dma-bufs.\n"
     "With \"n\" UCX is as it is without this plug-in.",
     offsetof(settings, enable), setting_kind::boolean},

    {"CHUNK_SIZE", "4g",
     "Allocations larger than this are registered piece by piece, where they\n"
     "are used, in pieces of this size. A power of two, at least 2m.",
     offsetof(settings, chunk_size), setting_kind::memory_units},

    {"MAX_SIZE", "auto",
     "How much memory of each GPU may be registered at a time; what several\n"
     "NICs share counts once. \"auto\" is 90 % of the GPU's BAR1 as NVML "
     "tells\n"
     "it, and no limit where that is as large as the GPU's memory or where "
     "GPU\n"
     "and host share a coherent link.",
     offsetof(settings, max_size), setting_kind::memory_units},

    {"MAX_REGIONS", "inf",
     "How many registrations may be kept at a time, over all devices.",
     offsetof(settings, max_regions), setting_kind::count},

    {"CHECK_IDENTITY", "auto",
     "Ask the CUDA driver at each use of a registration whether the memory is\n"
     "still the same. \"auto\" does so where not every way of releasing "
     "memory\n"
     "could be hooked; \"off\" trusts the hooks all the same.",
     offsetof(settings, check_identity), setting_kind::on_off_auto},

    {"PROVE", "on",
     "Before the first message between a GPU and a device, see whether bytes "
     "that\n"
     "the device is to write there and to read from there arrive; where they "
     "do\n"
     "not the path is not used. \"off\" trusts the path.",
     offsetof(settings, prove), setting_kind::on_off},

    {"STATS", "",
     "A file for the counters of each process, written when it ends. A line\n"
     "of JSON behind what is there or, if the name ends in \".prom\",\n"
     "Prometheus' text in the place of what was there. In the name \"%p\" is\n"
     "the process's number, \"%h\" the host's name and \"%%\" a \"%\".",
     offsetof(settings, stats), setting_kind::string},

    {"MODULE", "",
     "The plug-in's path, for the library that is preloaded to open it. By\n"
     "default it is beside that library or in the folder \"ucx\" there.",
     offsetof(settings, module), setting_kind::string},
};

constexpr settings_table table{"IB dma-buf", "IB_DMABUF_", all_settings,
                               sizeof(settings)};

} // namespace

void set_settings(config_parser &parser) noexcept
{
    parser.set(table);
}

ucs_status_t read_settings(config_parser &parser, settings *out) noexcept
{
    const ucs_status_t status = parser.read(out);

    if (status != UCS_OK) {
        return status; // the parser has logged the variable
    }

    const size_t chunk = out->chunk_size;
    if ((chunk < (size_t{2} << 20)) || ((chunk & (chunk - 1)) != 0)) {
        log_error("UCX_IB_DMABUF_CHUNK_SIZE=%zu is not a power of two of at "
                  "least 2m",
                  chunk);
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

} // namespace ucx_ib_dmabuf
