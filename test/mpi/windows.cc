// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided communication: windows over GPU and host memory, put,
// get and accumulate, with several kinds of synchronisation.
#include "job.h"

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
const struct epoch {
    const char *name;
    void (*run)(const access &, access_function);
} epochs[] = {
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

// Runs the operation on so many elements. The window covers the receive buffer;
// the send buffer is outside.
void run_one(job &in, const operation &one, const epoch &within, memory mine,
             memory window, int count)
{
    const size_t bytes     = static_cast<size_t>(count) * element;
    const two_buffers with = {mine, window, bytes, bytes + 2 * shift * element};

    compare_with_host(
        in, with,
        [&](uint8_t *send, uint8_t *receive) {
            access a = {count, in.peer(), MPI_WIN_NULL, shift, send};
            MPI_Win_create(receive, static_cast<MPI_Aint>(with.received),
                           element, MPI_INFO_NULL, MPI_COMM_WORLD, &a.window);
            MPI_Barrier(MPI_COMM_WORLD);
            within.run(a, one.run);
            MPI_Barrier(MPI_COMM_WORLD);
            MPI_Win_free(&a.window);
        },
        bytes >= rendezvous && one.moves);
}

// A case of the operation with these counts of elements, in each kind of epoch.
case_function in_each_epoch(const operation &one,
                            const std::vector<int> &counts)
{
    return [=, &one](job &in, memory mine, memory window) {
        for (const epoch &within : epochs) {
            in.run_part(within.name, [&] {
                for (int count : counts) {
                    run_one(in, one, within, mine, window, count);
                }
            });
        }
    };
}

// Puts and gets with a fence.
void run_both(job &in, memory mine, memory window)
{
    for (const operation &one : {operations[0], operations[1]}) {
        in.run_part(one.name,
                    [&] { run_one(in, one, epochs[0], mine, window, 20011); });
    }
}

} // namespace

// Most groups have names like device-host-small-put: the caller's memory, the
// window's memory, the size, the operation. They are small, as each MPI ends
// the job in some of them.
void add_windows(case_list &cases)
{
    for (memory mine : {memory::device, memory::host}) {
        for (memory window : {memory::device, memory::host}) {
            const std::string kinds =
                std::string(name_of(mine)) + "-" + name_of(window);
            for (const operation &one : operations) {
                cases.add(kinds + "-large-" + one.group,
                          std::string(one.name) + ", large",
                          in_each_epoch(one, {8192, 40010}), mine, window,
                          one.moves ? staging::follows : staging::any);
                cases.add(kinds + "-small-" + one.group,
                          std::string(one.name) + ", small",
                          in_each_epoch(one, {2, 500}), mine, window,
                          staging::any);
            }
        }
    }
    for (memory mine : allocators) {
        for (memory window : allocators) {
            // A separate group, as no NIC registers managed memory.
            cases.add(window == memory::managed ? "window-managed"
                                                : "window-allocators",
                      "a window", run_both, mine, window,
                      staging_between(mine, window));
        }
    }
}

} // namespace ucx_ib_dmabuf::test
