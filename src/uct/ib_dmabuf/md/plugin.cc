// SPDX-License-Identifier: BSD-3-Clause
#include "plugin.h"
#include "../fault/handler.h"
#include "../host/host.h"
#include "../host/log.h"
#include "nic.h"
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <new>
#include <sys/auxv.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

settings config;
find_gpus find_registered;

std::atomic<plugin *> instance;

void log_event(const cache_event &event)
{
    const auto *device = static_cast<const nic *>(event.nic);

    log_debug("ib_dmabuf: %s: %s 0x%zx..0x%zx: %s",
              (device != nullptr) ? device->name() : "all NICs", event.what,
              event.address, event.address + event.length,
              (event.cause != nullptr) ? event.cause
                                       : ucs_status_string(event.status));
}

cache_settings cache_settings_of(const settings &from, gpu_vendor &gpu)
{
    cache_settings result;

    result.chunk_size  = from.chunk_size;
    result.max_regions = from.max_regions; // setting_is_inf is SIZE_MAX
    result.max_bytes   = [limit = from.max_size, &gpu](int device) {
        return (limit == setting_is_auto) ? gpu.max_registered(device) : limit;
    };
    result.check_identity = (from.check_identity == on_off_auto::on);
    result.warn  = [](const char *message) { warn_once(message, message); };
    result.trace = log_event;
    return result;
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

bool plugin::enable(config_parser &parser, find_gpus find) noexcept
{
    enum { undecided, off, on };
    static std::atomic<int> decided{undecided};
    static std::mutex mutex; // never held while UCX reads
    settings read{};

    set_settings(parser);
    if (decided == undecided) {
        const bool good = read_settings(parser, &read) == UCS_OK;
        if (!good) {
            warn_once("settings",
                      "not used because a UCX_IB_DMABUF_* variable is wrong: "
                      "GPU memory is staged through host memory until the "
                      "process is started anew");
        }
        const std::lock_guard<std::mutex> guard(mutex);
        if (decided == undecided) {
            config          = read;
            find_registered = find;
            decided         = (good && (read.enable != 0)) ? on : off;
        }
    }
    return decided == on;
}

plugin *plugin::get() noexcept
try {
    static std::mutex mutex;
    // The loader is asked before the lock is taken.
    const bool ucx_has_cuda =
        (instance.load() == nullptr) && any_ucx_has_cuda();
    std::lock_guard<std::mutex> guard(mutex);

    if (instance.load() == nullptr) {
        auto gpu = find_registered();
        if (!gpu) {
            return nullptr;
        }
        auto *created = new plugin(std::move(gpu), ucx_has_cuda);
        created->gpu().watch(*created);
        instance.store(created);
    }
    return instance.load();
} catch (const std::bad_alloc &) {
    warn_no_memory();
    return nullptr;
}

plugin *plugin::existing() noexcept
{
    return instance.load();
}

plugin::plugin(std::unique_ptr<gpu_vendor> gpu, bool ucx_has_cuda)
    : gpu_(std::move(gpu)),
      touched_(ucx_has_cuda ? nullptr : gpu_->known_to_handlers()),
      cache_(*gpu_, cache_settings_of(config, *gpu_)), nics_(cache_),
      proofs_(&node_, proves_once(config))
{
    proofs_.call_when_refuted([this](const char *nic) { nics_.drop(nic); });
}

// Memory that is new cannot be what was registered there, either.
void plugin::on_change(uintptr_t address, size_t length) noexcept
{
    if (touched_ != nullptr) {
        tell_of_touches(touched_);
    }
    cache_.invalidate(address, length);
}

void plugin::on_release(uintptr_t address, size_t length) noexcept
{
    cache_.release(address, length);
}

void plugin::on_events_missed(const char *why) noexcept
{
    if (config.check_identity == on_off_auto::off) {
        return;
    }
    cache_.check_identity();
    warn_once("events", format("not every release of %s memory can be seen "
                               "(%s): each use of a registration asks the "
                               "driver whether its memory is still there, "
                               "which is correct but slower",
                               gpu_->name(), why));
}

proofs *plugin::proven_paths()
{
    return proves_paths(config) ? &proofs_ : nullptr;
}

// First the doubt: what is dropped may be registered anew at once.
void plugin::doubt(const char *device) noexcept
{
    if (proves_paths(config)) {
        proofs_.doubt(device);
    }
    nics_.drop(device);
}

void plugin::count_staged(size_t bytes)
{
    staged_operations_.fetch_add(1, std::memory_order_relaxed);
    staged_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void plugin::count_atomic()
{
    atomics_.fetch_add(1, std::memory_order_relaxed);
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
        {"atomics", atomics_.load()},
        {"proofs", proofs_.made()},
        {"refuted", proofs_.refuted()},
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
