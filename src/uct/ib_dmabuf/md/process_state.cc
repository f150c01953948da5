// SPDX-License-Identifier: BSD-3-Clause
#include "process_state.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <loader/enable.h>
#include <mutex>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <uct/ib_dmabuf/fork.h>
#include <uct/ib_dmabuf/stats/stats_file.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

settings config;
vendor_finder find_vendor;

std::atomic<process_state *> instance;
const char *started_in = nullptr; // working directory; never freed
bool stats_warned      = false;   // that the file cannot be written

void log_event(const rcache_event &event)
{
    log_debug("ib_dmabuf: %s: %s 0x%zx..0x%zx: %s", event.nic->name(),
              event.what, event.address, event.address + event.length,
              (event.cause != nullptr) ? event.cause
                                       : ucs_status_string(event.status));
}

// The cache's thread was started by any thread of the program, perhaps one on
// processors of its own. It preempts none, and gets its share when an operation
// waits for it. Returns false if it has another priority than the main thread,
// which mostly cannot be changed: operations might wait for long.
bool begin_thread()
{
    constexpr size_t most = 64; // 65536 processors
    std::array<cpu_set_t, most> allowed{};
    const sched_param none{};

    refusals_pass = true;
    pthread_setname_np(pthread_self(), "ucx-ib-dmabuf");
    if (sched_getaffinity(getpid(), sizeof(allowed), allowed.data()) == 0) {
        sched_setaffinity(0, sizeof(allowed), allowed.data());
    }
    return (sched_getscheduler(0) == SCHED_OTHER) &&
           (getpriority(PRIO_PROCESS, 0) ==
            getpriority(PRIO_PROCESS, getpid())) &&
           (pthread_setschedparam(pthread_self(), SCHED_BATCH, &none) == 0);
}

rcache_settings rcache_settings_of(const settings &from, gpu_vendor &gpu)
{
    rcache_settings result;

    result.chunk_size  = from.chunk_size;
    result.max_regions = (from.max_regions == setting_is_auto)
                             ? setting_is_inf
                             : from.max_regions;
    result.max_bytes   = [limit = from.max_size, &gpu](int which) {
        return (limit == setting_is_auto) ? gpu.max_registered(which) : limit;
    };
    result.check_identity = (from.check_identity == on_off_auto::on);
    result.prefetch       = (from.prefetch != 0);
    result.warn  = [](const char *message) { warn_once(message, message); };
    result.trace = log_event;
    result.ask_others   = ask_others_for_room;
    result.begin_thread = begin_thread;
    // The driver may end with the process. Its own functions for that are
    // known by now, and are called after this one.
    result.watch_exit = [] {
        static const int error =
            atexit([] { instance.load()->registrations().stop_thread(); });
        return error == 0;
    };
    return result;
}

// A program with more rights than its user writes no file that the user names.
bool writes_stats()
{
    return (config.stats != nullptr) && (config.stats[0] != '\0') &&
           (getauxval(AT_SECURE) == 0);
}

// Reports an error now instead of at the end of the job.
void warn_of_stats() noexcept
{
    std::array<char, PATH_MAX> path;

    if (!writes_stats()) {
        return;
    }
    started_in        = get_current_dir_name();
    const char *wrong = expand_pattern(config.stats, &path, started_in);
    const int error   = (wrong == nullptr) ? check_writable(path.data()) : 0;
    if (wrong != nullptr) {
        warn_once("stats", format("UCX_IB_DMABUF_STATS=%s: %s; this process "
                                  "writes no counters",
                                  config.stats, wrong));
    } else if (error != 0) {
        warn_once("stats", format("UCX_IB_DMABUF_STATS=%s: %s cannot be "
                                  "written (%s): name a file in a folder that "
                                  "is there and may be written to",
                                  config.stats, path.data(), strerror(error)));
        stats_warned = true;
    }
}

// Runs at exit, when UCX's log may be gone.
__attribute__((destructor)) void write_stats() noexcept
{
    std::array<char, PATH_MAX> path;

    if ((instance.load() == nullptr) || !writes_stats() ||
        (expand_pattern(config.stats, &path, started_in) != nullptr)) {
        return;
    }
    const int error = write_metrics(path.data());
    if ((error != 0) && !stats_warned) {
        fprintf(stderr, "UCX_IB_DMABUF_STATS=%s: %s cannot be written: %s\n",
                config.stats, path.data(), strerror(error));
    }
}

} // namespace

void warn_no_memory() noexcept
{
    warn_once("no memory", "no memory of the host for the plug-in's own data: "
                           "messages in GPU memory are staged through host "
                           "memory");
}

bool process_state::enable(config_parser &parser, vendor_finder find) noexcept
{
    enum { undecided, off, on };
    static std::atomic<int> decided{undecided};
    static std::mutex mutex; // not held while UCX's parser reads
    settings read{};

    parser.set(settings::table);
    if (decided == undecided) {
        const bool good = (parser.read(&read) == UCS_OK) && read.are_valid();
        if (!good) {
            warn_once(
                "settings",
                "not used because a UCX_IB_DMABUF_* variable has a "
                "wrong value, which the error above names. " WITHOUT_PLUGIN
                ". Correct it and restart the process");
        }
        const std::lock_guard<std::mutex> guard(mutex);
        if (decided == undecided) {
            config      = read;
            find_vendor = find;
            decided     = (good && (read.enable != 0)) ? on : off;
        }
    }
    return decided == on;
}

process_state *process_state::get() noexcept
try {
    static start_lock mutex;

    if (!mutex.acquire()) {
        warn_forked();
        return nullptr;
    }
    const std::lock_guard guard(mutex, std::adopt_lock);
    if (instance.load() == nullptr) {
        auto gpu = find_vendor();
        if (!gpu) {
            return nullptr;
        }
        auto *created = new process_state(std::move(gpu));
        at_fork<nullptr, forget_parent>();
        instance.store(created);
        created->gpu().watch(*created);
        warn_of_stats();
    }
    // A forked child shows its own when it opens its first domain.
    if (!show_live()) {
        log_debug("ib_dmabuf: counters cannot be watched: %m");
    }
    return instance.load();
} catch (const std::bad_alloc &) {
    warn_no_memory();
    return nullptr;
}

void process_state::start_giving_room() noexcept
{
    static start_lock mutex;

    if (!mutex.acquire()) {
        return;
    }
    const std::lock_guard guard(mutex, std::adopt_lock);
    if (!gives_room_.exchange(true) && !give_room_to_others([]() noexcept {
            instance.load()->registrations().evict_all_idle();
        })) {
        log_debug("ib_dmabuf: no thread gives other processes room");
    }
}

void process_state::forget_parent() noexcept
{
    const bool own = forget_live(); // else its parent counts what follows
    if (process_state *parents = instance.load()) {
        parents->registrations().forget_parent();
    }
    if (own) {
        process_counters.clear();
    }
    gives_room_ = false;
}

process_state *process_state::existing() noexcept
{
    return instance.load();
}

process_state::process_state(std::unique_ptr<gpu_vendor> gpu)
    : gpu_(std::move(gpu)), cache_(*gpu_, rcache_settings_of(config, *gpu_)),
      paths_([this](const char *nic) { cache_.drop(nic); })
{
    process_counters.set("hooks_complete", 1);
}

// New memory is not the memory that was registered there, either.
void process_state::on_change(uintptr_t address, size_t length) noexcept
{
    cache_.invalidate(address, length);
}

void process_state::on_release(uintptr_t address, size_t length) noexcept
{
    cache_.release(address, length);
}

void process_state::on_allocation(uintptr_t address, size_t length) noexcept
{
    cache_.allocate(address, length);
}

void process_state::on_events_missed(const char *why) noexcept
{
    process_counters.set("hooks_complete", 0);
    process_counters.hooks_missing.set(why);
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

bool process_state::checks_paths() noexcept
{
    return config.prove == on_off_auto::on;
}

// The recheck comes first: dropped memory may be registered again at once.
void process_state::recheck(const char *nic) noexcept
{
    if (checks_paths()) {
        paths_.recheck(nic);
    }
    cache_.drop(nic);
}

bool process_state::may_register() noexcept
{
    return (config.max_size != 0) && (config.max_regions != 0);
}

} // namespace ucx_ib_dmabuf
