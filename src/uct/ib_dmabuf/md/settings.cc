// SPDX-License-Identifier: BSD-3-Clause
#include "settings.h"
#include <cstddef>
extern "C" {
#include <ucs/config/global_opts.h>
#include <ucs/config/parser.h>
}
#include <ucs/debug/log_def.h>
#include <ucs/sys/compiler_def.h>

namespace ucx_ib_dmabuf {
namespace {

ucs_config_field_t settings_table[] = {
    {"ENABLE", "y",
     "Register CUDA memory with InfiniBand and RoCE devices through dma-bufs.\n"
     "With \"n\" UCX is as it is without this plug-in.",
     offsetof(settings, enable), UCS_CONFIG_TYPE_BOOL},

    {"CHUNK_SIZE", "4g",
     "Allocations larger than this are registered piece by piece, where they\n"
     "are used, in pieces of this size. A power of two, at least 2m.",
     offsetof(settings, chunk_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"MAX_SIZE", "auto",
     "How much memory of each GPU may be registered at a time; what several\n"
     "NICs share counts once. \"auto\" is 90 % of the GPU's BAR1 as NVML "
     "tells\n"
     "it, and no limit where that is as large as the GPU's memory or where "
     "GPU\n"
     "and host share a coherent link.",
     offsetof(settings, max_size), UCS_CONFIG_TYPE_MEMUNITS},

    {"MAX_REGIONS", "inf",
     "How many registrations may be kept at a time, over all devices.",
     offsetof(settings, max_regions), UCS_CONFIG_TYPE_ULUNITS},

    {"CHECK_IDENTITY", "auto",
     "Ask the CUDA driver at each use of a registration whether the memory is\n"
     "still the same. \"auto\" does so where not every way of releasing "
     "memory\n"
     "could be hooked; \"off\" trusts the hooks all the same.",
     offsetof(settings, check_identity), UCS_CONFIG_TYPE_ON_OFF_AUTO},

    {"STATS", "",
     "A file to which each process appends its counters, as a line of JSON,\n"
     "when it ends.",
     offsetof(settings, stats), UCS_CONFIG_TYPE_STRING},

    {"MODULE", "",
     "The plug-in's path, for the library that is preloaded to open it. By\n"
     "default it is beside that library or in the folder \"ucx\" there.",
     offsetof(settings, module), UCS_CONFIG_TYPE_STRING},

    {nullptr, nullptr, nullptr, 0, {}}};

// So that "ucx_info -c" shows them.
struct registration {
    ucs_config_global_list_entry_t entry{};

    registration()
    {
        entry.name   = "IB dma-buf";
        entry.prefix = "IB_DMABUF_";
        entry.table  = settings_table;
        entry.size   = sizeof(settings);
        ucs_list_add_tail(&ucs_config_global_list, &entry.list);
    }
};

} // namespace

ucs_status_t read_settings(settings *out) noexcept
{
    static registration shown;

    ucs_status_t status = ucs_config_parser_fill_opts(
        out, settings_table, UCS_DEFAULT_ENV_PREFIX, "IB_DMABUF_", 0);
    if (status != UCS_OK) {
        return status; // the parser has named the variable
    }

    const size_t chunk = out->chunk_size;
    if ((chunk < (size_t{2} << 20)) || ((chunk & (chunk - 1)) != 0)) {
        ucs_error("UCX_IB_DMABUF_CHUNK_SIZE=%zu is not a power of two of at "
                  "least 2m",
                  chunk);
        return UCS_ERR_INVALID_PARAM;
    }
    return UCS_OK;
}

} // namespace ucx_ib_dmabuf
