// SPDX-License-Identifier: BSD-3-Clause
//
// Measures the cost of GPU memory for a user of UCP. test/bench/run runs it
// with UCX alone and with the plug-in:
//   send/again, map/again    memory that was sent or mapped before
//   send/inside, map/inside  a first use, in an allocation that was used
//   map/first                a first use, in a new allocation
//   map/ahead                the same some time later, after others of its size
//   alloc                    cuMemAlloc() of a size that is not used
//   host/again, host/first   the same for host memory
//   free                     cuMemFree() of memory that was never registered
//   free/mapped              cuMemFree() of memory that was mapped
// "send" is ucp_tag_send_nbx() by rendezvous, up to the post; "map" and "host"
// are ucp_mem_map() and ucp_mem_unmap(). Each prints medians:
// NAME/instructions, and the plug-in's part, which is NAME/own (instructions),
// NAME/system_calls and NAME/loader_calls. NAME/driver_calls and NAME/exports
// are all that the driver was asked for.
//
// UCX is real, and so is the plug-in if it is loaded. libcuda (test/cuda_sim)
// and libibverbs (fake_verbs.cc) are simulated; their calls cost next to
// nothing.
#include "steps.h"
#include "ucp.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <common/fds.h>
#include <common/gpu.h>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <span>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

extern std::atomic<size_t> fake_registrations; // fake_verbs.cc

namespace {

constexpr size_t length  = 64 << 10; // of each message or mapping
constexpr size_t warm_up = 100;      // runs before the first counted one
constexpr size_t counts  = 3;        // counted runs

uintptr_t gpu_memory(size_t size)
{
    CUdeviceptr memory = 0;
    GPU_CALL(cuMemAlloc, &memory, size);
    return memory;
}

// A worker with an endpoint to itself.
class ucp : ucp_start {
public:
    // Nothing receives the message.
    void send(uintptr_t address)
    {
        constexpr ucp_request_param_t usual{};
        const ucs_status_ptr_t request = ucp_tag_send_nbx(
            ep_, reinterpret_cast<void *>(address), length, 1, &usual);
        check(UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_OK,
              "ucp_tag_send_nbx");
    }
    void map(uintptr_t address)
    {
        check(ucp_mem_unmap(context, hold(address)), "ucp_mem_unmap");
    }
    ucp_mem_h hold(uintptr_t address)
    {
        ucp_mem_map_params_t what{};
        what.field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        what.address     = reinterpret_cast<void *>(address);
        what.length      = length;
        ucp_mem_h mapped = nullptr;
        check(ucp_mem_map(context, &what, &mapped), "ucp_mem_map");
        return mapped;
    }
    void allocate(size_t size) { gpu_memory(size); }
    void free(uintptr_t address) { GPU_CALL(cuMemFree, address); }
    // Runs until all posted operations have completed.
    void progress()
    {
        while (ucp_worker_progress(worker) != 0) {
        }
    }

private:
    const ucp_ep_h ep_ = connect();
};

using addresses = std::vector<uintptr_t>;

uintptr_t host_memory(size_t size)
{
    return reinterpret_cast<uintptr_t>(aligned_alloc(4096, size));
}

struct operation {
    const char *name;
    addresses (*prepare)(ucp &with,
                         size_t count); // addresses for run(), in turn
    void (ucp::*run)(uintptr_t address);
};

template <void (ucp::*use)(uintptr_t), uintptr_t (*allocate)(size_t)>
addresses used(ucp &with, size_t)
{
    const uintptr_t one = allocate(length);
    for (size_t i = 0; i < warm_up; ++i) {
        (with.*use)(one);
        with.progress();
    }
    return {one};
}

// Parts of an allocation. The part before them has been used.
template <void (ucp::*use)(uintptr_t)>
addresses inside(ucp &with, size_t count)
{
    addresses all;
    const uintptr_t whole = gpu_memory((count + 1) * length);
    (with.*use)(whole);
    while (all.size() < count) {
        all.push_back(whole + (all.size() + 1) * length);
    }
    return all;
}

// Used memory for the runs that do not count, then new memory, which the
// plug-in has had the time to register. No other memory has this size.
addresses ahead(ucp &with, size_t count)
{
    constexpr size_t size = 2 << 20;
    addresses all;
    for (size_t i = 0; i < warm_up; ++i) {
        const uintptr_t one = gpu_memory(size);
        with.map(one);
        with.free(one);
    }
    all.resize(warm_up, gpu_memory(size));
    with.map(all.front());
    const size_t before = fake_registrations;
    while (all.size() < count) {
        all.push_back(gpu_memory(size));
    }
    // UCX alone registers nothing ahead, nor does a plug-in that checks
    // identity.
    const bool is_ahead = getenv("UCX_IB_DMABUF_MODULE") != nullptr &&
                          getenv("UCX_IB_DMABUF_CHECK_IDENTITY") == nullptr;
    const int patience = is_ahead ? 60000 : 0;
    for (int i = 0; i < patience && fake_registrations < before + counts; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return all;
}

template <uintptr_t (*allocate)(size_t), size_t size = length>
addresses unused(ucp &, size_t count)
{
    addresses all(count);
    for (uintptr_t &each : all) {
        each = allocate(size);
    }
    return all;
}

// UCP's cache has their handles.
addresses mapped(ucp &with, size_t count)
{
    addresses all = unused<gpu_memory>(with, count);
    for (const uintptr_t each : all) {
        with.map(each);
    }
    return all;
}

const operation operations[] = {
    {"send/again", used<&ucp::send, gpu_memory>, &ucp::send},
    {"send/inside", inside<&ucp::send>, &ucp::send},
    {"map/again", used<&ucp::map, gpu_memory>, &ucp::map},
    {"map/inside", inside<&ucp::map>, &ucp::map},
    {"map/first", unused<gpu_memory>, &ucp::map},
    {"map/ahead", ahead, &ucp::map},
    {"host/again", used<&ucp::map, host_memory>, &ucp::map},
    {"host/first", unused<host_memory>, &ucp::map},
    {"alloc", [](ucp &, size_t) { return addresses{1 << 20}; }, &ucp::allocate},
    {"free", unused<gpu_memory, 1 << 20>, &ucp::free},
    {"free/mapped", mapped, &ucp::free},
};

// What the driver was asked so far.
struct asked {
    uint64_t calls = 0, exports = 0;

    static asked now()
    {
        cuda_sim_counters_t counters{};
        SIM_CALL(cuda_sim_counters, &counters);
        return {SIM_CALL(cuda_sim_calls, nullptr), counters.exports};
    }
};

void measure(const operation &what, ucp &with)
{
    const addresses all = what.prepare(with, warm_up + counts);
    asked before;
    for (size_t i = 0; i < warm_up + counts; ++i) {
        if (i == warm_up) {
            before = asked::now();
        }
        if (i >= warm_up) {
            count_begin();
        }
        (with.*what.run)(all[i % all.size()]);
        if (i >= warm_up) {
            count_end();
        }
        with.progress();
    }
    const asked after = asked::now();
    printf("%s/driver_calls %lu\n%s/exports %lu\n", what.name,
           (after.calls - before.calls) / counts, what.name,
           (after.exports - before.exports) / counts);
}

// Another process of this machine that lacks room asks all whose page it finds
// to give some up. A plug-in that was asked registers nothing ahead any more.
void hide_from_others()
{
    close(live_page_fd()); // UCX alone has none
}

void print(const char *name, std::span<const steps> all, const steps &nothing)
{
    const auto median = [&](const char *figure, uint64_t steps::*which) {
        std::vector<uint64_t> each;
        for (const steps &one : all) {
            each.push_back(one.*which - nothing.*which);
        }
        std::sort(each.begin(), each.end());
        printf("%s/%s %lu\n", name, figure, each[each.size() / 2]);
    };
    median("instructions", &steps::instructions);
    median("own", &steps::own);
    median("system_calls", &steps::system_calls);
    median("loader_calls", &steps::loader_calls);
}

} // namespace

// usage: bench_ucp [HELD [NAME]...]
// HELD: so many other allocations are mapped all the time.
int main(int argc, char **argv)
{
    const size_t held = (argc > 1) ? std::stoul(argv[1]) : 0;
    const std::vector<std::string> names(argv + std::min(argc, 2), argv + argc);
    std::vector<operation> wanted;
    for (const operation &each : operations) {
        if (names.empty() ||
            std::find(names.begin(), names.end(), each.name) != names.end()) {
            wanted.push_back(each);
        }
    }
    const std::vector<steps> counted = count_steps([&] {
        mallopt(M_TOP_PAD, 64 << 20); // so that malloc() makes no system calls
        load_libraries(150);          // a large program's
        gpu::use();
        ucp with;
        hide_from_others();
        for (const uintptr_t each : unused<gpu_memory>(with, held)) {
            with.hold(each);
        }
        count_begin();
        count_end();
        for (const operation &each : wanted) {
            measure(each, with);
        }
        exit(0); // so that the plug-in writes its statistics
    });
    for (size_t i = 0; i < wanted.size(); ++i) {
        print(wanted[i].name,
              std::span(counted).subspan(1 + i * counts, counts),
              counted.front());
    }
    return 0;
}
