// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided communication: windows of every kind over GPU and host memory, put,
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
    MPI_Aint at;   // the displacement in the peer's window
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

// Makes a window over this memory. A dynamic window attaches the memory; the
// displacement is its address.
void make_window(access *a, bool dynamic, uint8_t *data, size_t length)
{
    const auto bytes = static_cast<MPI_Aint>(length);
    MPI_Aint mine = 0, others = 0;

    if (!dynamic) {
        MPI_Win_create(data, bytes, element, MPI_INFO_NULL, MPI_COMM_WORLD,
                       &a->window);
        a->at = shift;
        return;
    }
    MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &a->window);
    MPI_Win_attach(a->window, data, bytes);
    MPI_Get_address(data, &mine);
    MPI_Sendrecv(&mine, 1, MPI_AINT, a->peer, 0, &others, 1, MPI_AINT, a->peer,
                 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    a->at = MPI_Aint_add(others, shift * static_cast<MPI_Aint>(element));
}

// The window covers the receive buffer; the send buffer is outside.
template <typename Synchronisation>
void run_one(job &in, memory mine, memory window, int count,
             const Synchronisation &epoch, access_function run, bool large,
             bool dynamic)
{
    const auto elements = static_cast<size_t>(count);
    two_buffers with    = crossed_kinds(mine, window);

    with.sent     = elements * element;
    with.received = (elements + 2 * shift) * element;
    compare_with_host(
        in, with,
        [&](uint8_t *send, uint8_t *receive) {
            access a = {count, in.rank ^ 1, MPI_WIN_NULL, 0, send};
            make_window(&a, dynamic, receive, with.received);
            MPI_Barrier(MPI_COMM_WORLD);
            epoch.run(a, run);
            MPI_Barrier(MPI_COMM_WORLD);
            if (dynamic) {
                MPI_Win_detach(a.window, receive);
            }
            MPI_Win_free(&a.window);
        },
        large);
}

// Runs the operation with these counts of elements, in each kind of epoch.
void run_operation(job &in, const operation &one, memory mine, memory window,
                   const std::vector<int> &counts, bool dynamic = false)
{
    for (const auto &epoch : synchronisations) {
        const std::string before = in.failure;
        for (int count : counts) {
            const bool large =
                static_cast<size_t>(count) * element >= rendezvous;
            run_one(in, mine, window, count, epoch, one.run, large && one.moves,
                    dynamic);
        }
        if (before.empty() && !in.failure.empty()) {
            in.failure =
                one.name + std::string(", ") + epoch.name + ": " + in.failure;
        }
    }
}

// Puts into the memory that MPI allocated for the peer, and gets from there.
void run_allocated(job &in, memory mine, memory received)
{
    constexpr int count = 40010;
    two_buffers with    = crossed_kinds(mine, received);

    with.sent = with.received = count * element;
    compare_with_host(
        in, with,
        [&](uint8_t *send, uint8_t *receive) {
            const int peer = in.rank ^ 1;
            void *memory   = nullptr;
            MPI_Win window;
            MPI_Win_allocate(count * element, element, MPI_INFO_NULL,
                             MPI_COMM_WORLD, static_cast<void *>(&memory),
                             &window);
            MPI_Win_fence(0, window);
            MPI_Put(send, count, type(), peer, 0, count, type(), window);
            MPI_Win_fence(0, window);
            MPI_Get(receive, count, type(), peer, 0, count, type(), window);
            MPI_Win_fence(0, window);
            MPI_Win_free(&window);
        },
        true);
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
    const auto add = [&](const operation &one, const std::string &group,
                         const std::string &size, std::vector<int> counts,
                         bool dynamic, staging expected) {
        cases->push_back({prefix + size + "-" + group,
                          (dynamic ? "attached memory, " : "") +
                              std::string(one.name) + ", " + size + kinds,
                          [=, &one](job &in, memory a, memory b) {
                              run_operation(in, one, a, b, counts, dynamic);
                          },
                          mine, window, expected});
    };

    for (const operation &one : operations) {
        add(one, one.group, "large", {8192, 40010}, false,
            one.moves ? staging::follows : staging::any);
        add(one, one.group, "small", {2, 500}, false, staging::any);
        if (one.moves) {
            add(one, "dynamic", "large", {40010}, true, staging::follows);
            add(one, "dynamic", "small", {500}, true, staging::any);
        }
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
    for (memory first : {memory::device, memory::host}) {
        for (memory second : {memory::device, memory::host}) {
            const std::string kinds = std::string(": from ") + name_of(first) +
                                      " to " + name_of(second) + " memory";
            cases->push_back({"allocated-window", "MPI_Win_allocate" + kinds,
                              run_allocated, first, second, staging::follows});
        }
    }
}

} // namespace ucx_ib_dmabuf::test
