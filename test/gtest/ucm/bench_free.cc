// SPDX-License-Identifier: BSD-3-Clause
//
// What the hooks add to a release of memory that was never registered: calls
// of a driver library that does nothing, before and after the hooks are
// installed. Prints JSON; times are nanoseconds per call, the median of the
// rounds. One handler is subscribed, which does nothing.
//
// "known": the allocation was announced, as all are that were made after the
// hooks were installed. "unknown": it is older, and the hook asks the driver
// how long it is: cuMemGetAddressRange costs nothing here, but some hundred
// nanoseconds in a real driver.
#include <algorithm>
#include <chrono>
#include <common/linked_ucx.h>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "fake.h"

using namespace ucx_ib_dmabuf;
using namespace ucx_ib_dmabuf::test;

namespace {

constexpr int ROUNDS = 101, BATCH = 1000;

struct Function {
    const char *name;
    void (*call)(void *function, uint64_t address);
    void *address;
    double without, known, unknown;
};

template <class Call>
double median_of(Call &&round)
{
    std::vector<double> times(ROUNDS);
    for (double &time : times) {
        time = round();
    }
    std::nth_element(times.begin(), times.begin() + ROUNDS / 2, times.end());
    return times[ROUNDS / 2];
}

double measure(const Fake &fake, const Function &function, bool allocate)
{
    auto *alloc = fake.get<Alloc>("cuMemAlloc_v2");
    std::vector<uint64_t> addresses(BATCH);

    return median_of([&] {
        for (uint64_t &address : addresses) {
            address = ADDRESS + uint64_t(&address - addresses.data()) * SIZE;
            if (allocate) {
                alloc(&address, SIZE);
            }
        }
        const auto start = std::chrono::steady_clock::now();
        for (const uint64_t address : addresses) {
            function.call(function.address, address);
        }
        const std::chrono::duration<double, std::nano> time =
            std::chrono::steady_clock::now() - start;
        return time.count() / BATCH;
    });
}

void free_now(void *function, uint64_t address)
{
    reinterpret_cast<Call1 *>(function)(address);
}

void free_async(void *function, uint64_t address)
{
    reinterpret_cast<Call2 *>(function)(address, 0);
}

} // namespace

int main(int, char **argv)
{
    // UCX's own module stays out: its hooks are not what is measured. UCX has
    // read its settings already, so begin again with the right ones.
    if (variable("UCX_MODULES").empty()) {
        setenv("UCX_MODULES", "^cuda", 1);
        execv("/proc/self/exe", argv);
    }
    use_linked_ucx();
    Fake fake;
    *static_cast<size_t *>(symbol_of(fake.library, "fake_step")) = SIZE;
    Function functions[] = {{"cuMemFree_v2", free_now, nullptr, 0, 0, 0},
                            {"cuMemFreeAsync", free_async, nullptr, 0, 0, 0}};

    for (Function &function : functions) {
        function.address = symbol_of(fake.library, function.name);
        function.without = measure(fake, function, false);
    }
    install_all();
    all_ucm().front()->set_event_handler(
        UCM_EVENT_MEM_TYPE_FREE | UCM_EVENT_FLAG_NO_INSTALL, 0,
        [](ucm_event_type_t, ucm_event_t *, void *) {}, nullptr);
    for (Function &function : functions) {
        function.known   = measure(fake, function, true);
        function.unknown = measure(fake, function, false);
    }

    printf("{\"benchmark\": \"free\", \"unit\": \"ns\", \"functions\": [");
    const char *separator = "";
    for (const Function &function : functions) {
        printf("%s\n  {\"name\": \"%s\", \"without_hooks\": %.1f, "
               "\"with_hooks_known\": %.1f, \"with_hooks_unknown\": %.1f, "
               "\"added_known\": %.1f, \"added_unknown\": %.1f}",
               separator, function.name, function.without, function.known,
               function.unknown, function.known - function.without,
               function.unknown - function.without);
        separator = ",";
    }
    printf("\n]}\n");
    return 0;
}
