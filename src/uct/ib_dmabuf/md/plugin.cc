// SPDX-License-Identifier: BSD-3-Clause
#include "plugin.h"
#include "../../../ucm/cuda_events.h"
#include "../cuda/bar1.h"
#include "../cuda/memory.h"
#include "../report.h"
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <new>
#include <sys/auxv.h>
#include <ucm/api/ucm.h>
#include <ucs/debug/log_def.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/sys/string.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

settings config;

std::atomic<plugin *> instance;

cache_settings cache_settings_of(const settings &from, const driver &cuda)
{
    cache_settings result;

    result.chunk_size = from.chunk_size;
    result.max_regions =
        (from.max_regions == UCS_ULUNITS_INF) ? SIZE_MAX : from.max_regions;
    result.max_bytes = [limit = from.max_size, &cuda](int device) {
        return (limit == UCS_MEMUNITS_AUTO) ? cuda_bar1_budget(cuda, device)
                                            : limit;
    };
    result.check_identity = (from.check_identity == UCS_CONFIG_ON);
    result.warn           = [](const char *message) {
        ucs_warn("ib_dmabuf: %s", message);
    };
    return result;
}

// Called by UCM in the thread that allocates or releases, before the driver
// releases. Memory that is new there cannot be what was registered, either.
void on_event(ucm_event_type_t type, ucm_event_t *event, void *arg) noexcept
{
    auto *registrations = static_cast<cache *>(arg);

    if (cuda_event_is_everything(*event)) {
        registrations->invalidate(0, SIZE_MAX);
    } else if (event->mem_type.mem_type != UCS_MEMORY_TYPE_HOST) {
        registrations->invalidate(
            reinterpret_cast<uintptr_t>(event->mem_type.address),
            event->mem_type.size);
    }
}

// At exit, for UCX_IB_DMABUF_STATS.
__attribute__((destructor)) void write_counters() noexcept
{
    const plugin *shared = instance.load();

    // A program with more rights than its user writes no file by his word.
    if ((shared == nullptr) || (config.stats == nullptr) ||
        (config.stats[0] == '\0') || (getauxval(AT_SECURE) != 0)) {
        return;
    }
    text line = shared->counters();
    line.append("\n");
    const size_t length = strlen(line.c_str());
    const int fd = open(config.stats, O_WRONLY | O_CREAT | O_APPEND, 0666);
    // One write, so that the lines of several processes do not mix.
    if ((fd < 0) || (write(fd, line.c_str(), length) != ssize_t(length))) {
        fprintf(stderr, "UCX_IB_DMABUF_STATS=%s: %m\n", config.stats);
    }
    if (fd >= 0) {
        close(fd);
    }
}

} // namespace

void warn_no_memory() noexcept
{
    warn_once("no memory", "no memory of the host for the plug-in's own data: "
                           "messages in GPU memory are staged through host "
                           "memory");
}

bool plugin::enable() noexcept
{
    if (read_settings(&config) != UCS_OK) {
        ucs_warn("ib_dmabuf: not used because a UCX_IB_DMABUF_* variable is "
                 "wrong: GPU memory is staged through host memory");
        return false;
    }
    return config.enable != 0;
}

plugin *plugin::get() noexcept
try {
    static std::mutex mutex;
    std::lock_guard<std::mutex> guard(mutex);

    if (instance.load() == nullptr) {
        text why;
        const driver *cuda = driver::get();
        if (cuda == nullptr) {
            return nullptr;
        }
        if (!cuda_can_export(*cuda, &why)) {
            warn_once("no GPU exports",
                      format("%s. Messages in GPU memory are staged through "
                             "host memory",
                             why.c_str()));
            return nullptr;
        }
        auto *created = new plugin(*cuda, config);
        created->watch_events();
        instance.store(created);
    }
    return instance.load();
} catch (const std::bad_alloc &) {
    warn_no_memory();
    return nullptr;
}

plugin::plugin(const driver &cuda, const settings &from)
    : cuda_(cuda), exporter_(cuda),
      cache_(exporter_, cache_settings_of(from, cuda))
{
}

void plugin::watch_events() noexcept
{
    constexpr int events = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;
    // Before UCX's own caches, which have priority 0.
    constexpr int priority = INT_MIN / 2;

    // UCX's own hooks first, ours where it has none. NO_INSTALL: the handler
    // is wanted even where UCX cannot install its own.
    cuda_events_install();
    if (ucm_set_event_handler(events | UCM_EVENT_FLAG_NO_INSTALL, priority,
                              on_event, &cache_) != UCS_OK) {
        on_events_missed("UCX refuses a handler of its events");
        return;
    }
    events_complete_ = true;
    cuda_events_on_incomplete(
        [](const char *why, void *arg) {
            static_cast<plugin *>(arg)->on_events_missed(why);
        },
        this);
}

// At any time, perhaps in the middle of a call of CUDA's.
void plugin::on_events_missed(const char *why) noexcept
{
    events_complete_ = false;
    if (config.check_identity == UCS_CONFIG_OFF) {
        return;
    }
    cache_.check_identity();
    warn_once("events",
              format("not every release of CUDA memory can be seen "
                     "(%s): each use of a registration asks the CUDA "
                     "driver whether its memory is still there, which "
                     "is correct but slower",
                     why));
}

bool plugin::may_be_device(const void *address, size_t length) const
{
    ucs_memory_info_t info;

    // UCX's cache of memory types sees the same events.
    return !events_complete_ ||
           (ucs_memtype_cache_lookup(address, length, &info) !=
            UCS_ERR_NO_ELEM);
}

void plugin::count_staged(size_t bytes)
{
    staged_operations_.fetch_add(1, std::memory_order_relaxed);
    staged_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

text plugin::counters() const noexcept
{
    cache_counters now;

    cache_.read_counters(&now);
    const struct {
        const char *name;
        uint64_t value;
    } all[] = {
        {"pid", static_cast<uint64_t>(getpid())},
        {"hits", now.hits},
        {"misses", now.misses},
        {"registrations", now.registrations},
        {"deregistrations", now.deregistrations},
        {"exports", now.exports},
        {"identity_checks", now.identity_checks},
        {"identity_misses", now.identity_misses},
        {"invalidations", now.invalidations},
        {"evictions", now.evictions},
        {"failures", now.failures},
        {"staged_operations", staged_operations_.load()},
        {"staged_bytes", staged_bytes_.load()},
    };
    text line("{");
    for (const auto &one : all) {
        line.append("%s\"%s\": %llu", (&one == all) ? "" : ", ", one.name,
                    static_cast<unsigned long long>(one.value));
    }
    line.append("}");
    return line;
}

} // namespace ucx_ib_dmabuf
