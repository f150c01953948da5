// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided communication: windows over GPU and host memory, put,
// get and accumulate, with several kinds of synchronisation.
#include "collective.h"
#include "compared.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr MPI_Aint shift = 3; // elements before the accessed ones

// An access of one rank to its peer's window.
struct access {
    int count; // elements
    int peer;
    MPI_Win window;
    MPI_Aint at;   // elements in the peer's window
    uint8_t *mine; // outside the window
};

using access_function = void (*)(const access &);

// Arguments that all operations share.
#define MOVED a.mine, a.count, type(), a.peer, a.at, a.count, type()

const struct operation {
    const char *group; // the end of the group's name
    const char *name;
    bool moves; // it computes nothing
    access_function run;
} operations[] = {
    {"put", "MPI_Put", true, [](const access &a) { MPI_Put(MOVED, a.window); }},
    {"get", "MPI_Get", true, [](const access &a) { MPI_Get(MOVED, a.window); }},
    {"accumulate", "MPI_Accumulate", false,
     [](const access &a) { MPI_Accumulate(MOVED, MPI_SUM, a.window); }},
    {"replace", "MPI_Accumulate, MPI_REPLACE", false,
     [](const access &a) { MPI_Accumulate(MOVED, MPI_REPLACE, a.window); }},
};

// Each encloses the operation in an epoch.
const struct {
    const char *name;
    void (*run)(const access &, access_function);
} synchronisations[] = {
    {"fence",
     [](const access &a, access_function run) {
         MPI_Win_fence(0, a.window);
         run(a);
         MPI_Win_fence(0, a.window);
     }},
    {"lock",
     [](const access &a, access_function run) {
         MPI_Win_lock(MPI_LOCK_EXCLUSIVE, a.peer, 0, a.window);
         run(a);
         MPI_Win_unlock(a.peer, a.window);
     }},
    {"lock_all and flush",
     [](const access &a, access_function run) {
         MPI_Win_lock_all(0, a.window);
         run(a);
         MPI_Win_flush(a.peer, a.window);
         MPI_Win_unlock_all(a.window);
     }},
};

// The window covers the receive buffer; the send buffer is outside.
template <typename Synchronisation>
void run_one(job &in, memory mine, memory window, int count,
             const Synchronisation &epoch, access_function run, bool large)
{
    const auto elements = static_cast<size_t>(count);
    two_buffers with    = crossed_kinds(mine, window);

    with.sent     = elements * element;
    with.received = (elements + 2 * shift) * element;
    compare_with_host(
        in, with,
        [&](uint8_t *send, uint8_t *receive) {
            access a = {count, in.rank ^ 1, MPI_WIN_NULL, shift, send};
            MPI_Win_create(receive, static_cast<MPI_Aint>(with.received),
                           element, MPI_INFO_NULL, MPI_COMM_WORLD, &a.window);
            MPI_Barrier(MPI_COMM_WORLD);
            epoch.run(a, run);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_free(&a.window);
        },
        large);
}

// Runs the operation with these counts of elements, in each kind of epoch.
void run_operation(job &in, const operation &one, memory mine, memory window,
                   const std::vector<int> &counts)
{
    for (const auto &epoch : synchronisations) {
        const std::string before = in.failure;
        for (int count : counts) {
            const bool large =
                static_cast<size_t>(count) * element >= rendezvous;
            run_one(in, mine, window, count, epoch, one.run,
                    large && one.moves);
        }
        if (before.empty() && !in.failure.empty()) {
            in.failure =
                one.name + std::string(", ") + epoch.name + ": " + in.failure;
        }
    }
}

// Groups have names like device-host-small-put: the caller's memory, the
// window's memory, the size, the operation. They are small, as each MPI ends
// the job in some of them.
void add_operations(std::vector<test_case> *cases, memory mine, memory window)
{
    const std::string first = name_of(mine), second = name_of(window),
                      kinds =
                          ": " + first + ", a window of " + second + " memory",
                      prefix = first + "-" + second + "-";
    const auto add = [&](const operation &one, const std::string &size,
                         std::vector<int> counts, staging expected) {
        cases->push_back({prefix + size + "-" + one.group,
                          std::string(one.name) + ", " + size + kinds,
                          [=, &one](job &in, memory a, memory b) {
                              run_operation(in, one, a, b, counts);
                          },
                          mine, window, expected});
    };

    for (const operation &one : operations) {
        add(one, "large", {8192, 40010},
            one.moves ? staging::follows : staging::any);
        add(one, "small", {2, 500}, staging::any);
    }
}

} // namespace

void add_windows(std::vector<test_case> *cases)
{
    for (memory mine : {memory::device, memory::host}) {
        for (memory window : {memory::device, memory::host}) {
            add_operations(cases, mine, window);
        }
    }
}

} // namespace ucx_ib_dmabuf::test
