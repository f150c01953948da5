// SPDX-License-Identifier: BSD-3-Clause
#include "settings.h"
#include <cstddef>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

constexpr setting all_settings[] = {
    {"ENABLE", "y",
     "Register CUDA memory with InfiniBand and RoCE devices through dma-bufs.\n"
     "With \"n\" UCX behaves as without this plug-in.",
     offsetof(settings, enable), setting_kind::boolean},

    {"CHUNK_SIZE", "4g",
     "Larger allocations are registered in chunks of this size, where they\n"
     "are used. A power of two, at least 2m.",
     offsetof(settings, chunk_size), setting_kind::memory_units},

    {"MAX_SIZE", "auto",
     "The most memory of each GPU that is registered at a time. Memory that\n"
     "several NICs share counts once. \"auto\" is 90 % of the GPU's BAR1, as\n"
     "reported by NVML. It is no limit if the BAR1 is as large as the GPU's\n"
     "memory, or if GPU and host share a coherent link.",
     offsetof(settings, max_size), setting_kind::memory_units},

    {"MAX_REGIONS", "inf",
     "The most registrations that are kept at a time, over all devices.",
     offsetof(settings, max_regions), setting_kind::count},

    {"CHECK_IDENTITY", "auto",
     "Ask the CUDA driver at each use of a registration whether the memory is\n"
     "still the same. \"auto\" asks if some way of releasing memory could not\n"
     "be hooked. \"off\" trusts the hooks even then.",
     offsetof(settings, check_identity), setting_kind::on_off_auto},

    {"PROVE", "on",
     "Before the first message between a GPU and a device, check that the\n"
     "device writes and reads the GPU's memory without losing bytes. A path\n"
     "that loses bytes is not used. \"off\" trusts each path.",
     offsetof(settings, prove), setting_kind::on_off},

    {"PREFETCH", "y",
     "Register new GPU memory in the background, before it is first used, if\n"
     "earlier allocations of its size were used.",
     offsetof(settings, prefetch), setting_kind::boolean},

    {"STATS", "",
     "A file for the counters of each process, written when the process ends.\n"
     "A line of JSON is appended. If the name ends in \".prom\", the file is\n"
     "replaced by one in Prometheus' text format. In the name \"%p\" is the\n"
     "process id, \"%h\" the host's name and \"%%\" a \"%\".",
     offsetof(settings, stats), setting_kind::string},

    {"MODULE", "",
     "The plug-in's path, for the preload library that opens it. By default\n"
     "it is beside that library, or in the folder \"ucx\" there.",
     offsetof(settings, module), setting_kind::string},
};

} // namespace

constexpr settings_table settings::table{"IB dma-buf", "IB_DMABUF_",
                                         all_settings, sizeof(settings)};

bool settings::are_valid() const
{
    const bool valid = (chunk_size >= (size_t{2} << 20)) &&
                       ((chunk_size & (chunk_size - 1)) == 0);

    if (!valid) {
        log_error("UCX_IB_DMABUF_CHUNK_SIZE=%zu is not a power of two of at "
                  "least 2m",
                  chunk_size);
    }
    return valid;
}

} // namespace ucx_ib_dmabuf
