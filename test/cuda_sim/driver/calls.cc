// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "../cuda_sim.h"
#include "machine.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

// The linker's bounds of the section that lists all calls.
extern "C" {
extern ucx_ib_dmabuf::sim::Call *const __start_sim_calls[] SIM_HIDDEN;
extern ucx_ib_dmabuf::sim::Call *const __stop_sim_calls[] SIM_HIDDEN;
}

namespace ucx_ib_dmabuf::sim {

constinit std::atomic<State> state{State::unused};
constinit std::atomic<uint64_t> copied_bytes{0}, exports{0};

namespace {

constinit std::mutex plan_lock;

struct CallList {
    Call *const *begin() const { return __start_sim_calls; }
    Call *const *end() const { return __stop_sim_calls; }
};

Call *find_call(std::string_view name)
{
    for (Call *call : CallList()) {
        if (name == call->name)
            return call;
    }
    return nullptr;
}

struct Item {
    Call *call;
    uint64_t value, first, last;
};

// Parses "name=value[:first[-last]]".
bool parse_item(const std::string &text, bool ranged, Item &item)
{
    char name[80]            = "";
    unsigned long long value = 0, first = 1, last = UINT64_MAX;
    int end         = 0;
    const int found = sscanf(text.c_str(), "%79[^=]=%llu%n:%llu%n-%llu%n", name,
                             &value, &end, &first, &end, &last, &end);
    item = {find_call(name), value, first, found == 3 ? first : last};
    return item.call && found >= 2 && (found == 2 || ranged) && !text[end] &&
           item.first >= 1 && item.first <= item.last;
}

bool parse(const char *setting, const char *spec, bool ranged,
           std::vector<Item> &items)
{
    std::string_view rest(spec ? spec : "");
    while (!rest.empty()) {
        size_t comma = rest.find(',');
        std::string text(rest.substr(0, comma));
        rest = comma == rest.npos ? "" : rest.substr(comma + 1);
        Item item;
        if (!parse_item(text, ranged, item)) {
            complain("%s: '%s' is not a known call with %s", setting,
                     text.c_str(),
                     ranged ? "=error[:first[-last]]" : "=microseconds");
            return false;
        }
        items.push_back(item);
    }
    return true;
}

void rearm(Call &call)
{
    call.armed.store(call.error != CUDA_SUCCESS || call.delay_usec,
                     std::memory_order_relaxed);
}

void set_delay(const char *spec)
{
    std::vector<Item> items;
    parse("CUDA_SIM_DELAY", spec, false, items);
    for (const Item &item : items) {
        item.call->delay_usec = item.value;
        rearm(*item.call);
    }
}

std::string stats_line()
{
    std::string line = "{\"pid\":" + std::to_string(getpid()) +
                       ",\"copied\":" + std::to_string(copied_bytes) +
                       ",\"exports\":" + std::to_string(exports);
    for (Call *call : CallList()) {
        if (uint64_t count = call->count.load())
            line +=
                std::string(",\"") + call->name + "\":" + std::to_string(count);
    }
    return line + "}\n";
}

// Uses a single write, so that lines of several processes do not mix.
__attribute__((destructor)) void write_stats()
{
    const std::string &file = settings().stats_file;
    if (file.empty() || state == State::forked)
        return;
    std::string line = stats_line();
    int fd =
        open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, line.data(), line.size()) != ssize_t(line.size()))
        complain("CUDA_SIM_STATS: cannot append to %s: %m", file.c_str());
    if (fd >= 0)
        close(fd);
}

__attribute__((constructor)) void load()
{
    settings();
    cuda_sim_set_fail(getenv("CUDA_SIM_FAIL"));
    set_delay(getenv("CUDA_SIM_DELAY"));
}

} // namespace

CUresult Call::planned(uint64_t number)
{
    std::unique_lock guard(plan_lock);
    uint64_t index  = number - base;
    uint64_t delay  = delay_usec;
    CUresult result = index >= first && index <= last ? error : CUDA_SUCCESS;
    guard.unlock();
    if (delay)
        usleep(useconds_t(delay));
    return result;
}

// Without a GPU, exports are not supported.
CUresult Call::refused() const
{
    return settings().devices == 0 &&
                   !strcmp(name, "cuMemGetHandleForAddressRange")
               ? CUDA_ERROR_NOT_SUPPORTED
               : state_error();
}

CUresult state_error()
{
    return state == State::finished ? CUDA_ERROR_DEINITIALIZED
                                    : CUDA_ERROR_NOT_INITIALIZED;
}

} // namespace ucx_ib_dmabuf::sim

using namespace ucx_ib_dmabuf::sim;

extern "C" SIM_PUBLIC void cuda_sim_counters(cuda_sim_counters_t *out)
{
    *out = {copied_bytes, exports};
}

extern "C" SIM_PUBLIC uint64_t cuda_sim_calls(const char *name)
{
    uint64_t sum = 0;
    for (Call *call : CallList()) {
        if (!name || !strcmp(name, call->name))
            sum += call->count.load();
    }
    return sum;
}

extern "C" SIM_PUBLIC int cuda_sim_set_fail(const char *spec)
{
    std::vector<Item> items;
    if (!parse("CUDA_SIM_FAIL", spec, true, items))
        return -1;
    std::lock_guard guard(plan_lock);
    for (Call *call : CallList()) {
        call->error = CUDA_SUCCESS;
        rearm(*call);
    }
    for (const Item &item : items) {
        item.call->base  = item.call->count.load(std::memory_order_relaxed);
        item.call->first = item.first;
        item.call->last  = item.last;
        item.call->error = CUresult(item.value);
        rearm(*item.call);
    }
    return 0;
}
