// SPDX-License-Identifier: BSD-3-Clause
//
// One-sided communication: windows of every kind over memory of GPUs and the
// host's, put, get and accumulate, with each way of synchronising.
#include "collective.h"
#include "compared.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr MPI_Aint shift = 3; // elements before what is written or read

// What one rank does to its peer's window.
struct access {
    int count; // elements
    int peer;
    MPI_Win window;
    MPI_Aint at;   // the place in the peer's window
    uint8_t *mine; // not in the window
};

using operation = void (*)(const access &);

const struct {
    const char *group; // the end of its name
    const char *name;
    bool moves; // no bytes are computed
    operation run;
} operations[] = {
    {"put", "MPI_Put", true,
     [](const access &a) {
         MPI_Put(a.mine, a.count, type(), a.peer, a.at, a.count, type(),
                 a.window);
     }},
    {"get", "MPI_Get", true,
     [](const access &a) {
         MPI_Get(a.mine, a.count, type(), a.peer, a.at, a.count, type(),
                 a.window);
     }},
    {"accumulate", "MPI_Accumulate", false,
     [](const access &a) {
         MPI_Accumulate(a.mine, a.count, type(), a.peer, a.at, a.count, type(),
                        MPI_SUM, a.window);
     }},
    {"replace", "MPI_Accumulate, MPI_REPLACE", false,
     [](const access &a) {
         MPI_Accumulate(a.mine, a.count, type(), a.peer, a.at, a.count, type(),
                        MPI_REPLACE, a.window);
     }},
    {"accumulate", "MPI_Get_accumulate", false,
     [](const access &a) {
         MPI_Get_accumulate(a.mine, a.count / 2, type(),
                            a.mine + a.count / 2 * element, a.count / 2, type(),
                            a.peer, a.at, a.count / 2, type(), MPI_BXOR,
                            a.window);
     }},
};

// What only one element takes part in.
const struct {
    const char *name;
    operation run;
} atomics[] = {
    {"MPI_Fetch_and_op",
     [](const access &a) {
         MPI_Fetch_and_op(a.mine, a.mine + element, type(), a.peer, a.at,
                          MPI_SUM, a.window);
     }},
    {"MPI_Compare_and_swap",
     [](const access &a) {
         MPI_Compare_and_swap(a.mine, a.mine + element, a.mine + 2 * element,
                              type(), a.peer, a.at, a.window);
     }},
};

// Each begins and ends an epoch around the operation.
const struct {
    const char *name;
    void (*run)(const access &, operation);
} synchronisations[] = {
    {"fence",
     [](const access &a, operation run) {
         MPI_Win_fence(0, a.window);
         run(a);
         MPI_Win_fence(0, a.window);
     }},
    {"lock",
     [](const access &a, operation run) {
         MPI_Win_lock(MPI_LOCK_EXCLUSIVE, a.peer, 0, a.window);
         run(a);
         MPI_Win_unlock(a.peer, a.window);
     }},
    {"lock_all and flush",
     [](const access &a, operation run) {
         MPI_Win_lock_all(0, a.window);
         run(a);
         MPI_Win_flush(a.peer, a.window);
         MPI_Win_unlock_all(a.window);
     }},
    {"post, start, complete, wait",
     [](const access &a, operation run) {
         MPI_Group all, one;
         MPI_Win_get_group(a.window, &all);
         MPI_Group_incl(all, 1, &a.peer, &one);
         MPI_Win_post(one, 0, a.window);
         MPI_Win_start(one, 0, a.window);
         run(a);
         MPI_Win_complete(a.window);
         MPI_Win_wait(a.window);
         MPI_Group_free(&one);
         MPI_Group_free(&all);
     }},
};

// Over this memory: the window has it from the beginning, or it is attached,
// and has the place there that its address says.
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

// The window is over what is received, the rank's own memory is what it sends.
template <typename Synchronisation>
void run_one(job &in, memory mine, memory window, int count,
             const Synchronisation &epoch, operation run, bool large,
             bool dynamic = false)
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

void note_which(job &in, const std::string &before, const std::string &what)
{
    if (before.empty() && !in.failure.empty()) {
        in.failure = what + ": " + in.failure;
    }
}

template <size_t index, bool large>
void run_operation(job &in, memory mine, memory window)
{
    const auto &one = operations[index];

    for (const auto &epoch : synchronisations) {
        const std::string before = in.failure;
        for (int count : {2, 500, 8192, 40010}) {
            const bool is_large =
                static_cast<size_t>(count) * element >= rendezvous;
            if (is_large == large) {
                run_one(in, mine, window, count, epoch, one.run,
                        is_large && one.moves);
            }
        }
        note_which(in, before, epoch.name);
    }
}

template <bool large>
void run_dynamic(job &in, memory mine, memory window)
{
    for (size_t index : {0U, 1U}) { // MPI_Put, MPI_Get
        for (const auto &epoch : synchronisations) {
            const std::string before = in.failure;
            run_one(in, mine, window, large ? 40010 : 500, epoch,
                    operations[index].run, large, true);
            note_which(in, before,
                       std::string(operations[index].name) + ", " + epoch.name);
        }
    }
}

// MPI's own memory: to the peer's, and back from there.
void run_made(job &in, memory mine, memory received, bool shared)
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
            (shared ? MPI_Win_allocate_shared : MPI_Win_allocate)(
                count * element, element, MPI_INFO_NULL, MPI_COMM_WORLD,
                static_cast<void *>(&memory), &window);
            MPI_Win_fence(0, window);
            MPI_Put(send, count, type(), peer, 0, count, type(), window);
            MPI_Win_fence(0, window);
            MPI_Get(receive, count, type(), peer, 0, count, type(), window);
            MPI_Win_fence(0, window);
            MPI_Win_free(&window);
        },
        !shared);
}

void run_allocated(job &in, memory first, memory second)
{
    run_made(in, first, second, false);
}

void run_shared(job &in, memory first, memory second)
{
    run_made(in, first, second, true);
}

void run_atomics(job &in, memory mine, memory window)
{
    for (const auto &one : atomics) {
        for (const auto &epoch : synchronisations) {
            const std::string before = in.failure;
            run_one(in, mine, window, 8, epoch, one.run, false);
            note_which(in, before, one.name + std::string(", ") + epoch.name);
        }
    }
}

// Groups are called as device-host-small-put: the memory of who calls, of the
// window, how much, what is done. Each MPI ends in some of them, so they are
// many.
template <size_t... index>
void add_operations(std::vector<test_case> *cases, memory mine, memory window,
                    std::index_sequence<index...>)
{
    const std::string first = name_of(mine), second = name_of(window),
                      kinds =
                          ": " + first + ", a window of " + second + " memory",
                      prefix = first + "-" + second + "-";

    (
        [&] {
            const auto &one       = operations[index];
            const std::string end = std::string("-") + one.group;
            cases->push_back({prefix + "large" + end,
                              one.name + (", large" + kinds),
                              run_operation<index, true>, mine, window,
                              one.moves ? staging::follows : staging::any});
            cases->push_back(
                {prefix + "small" + end, one.name + (", small" + kinds),
                 run_operation<index, false>, mine, window, staging::any});
        }(),
        ...);
    cases->push_back({prefix + "large-dynamic",
                      "attached memory, large" + kinds, run_dynamic<true>, mine,
                      window, staging::follows});
    cases->push_back({prefix + "small-dynamic",
                      "attached memory, small" + kinds, run_dynamic<false>,
                      mine, window, staging::any});
    cases->push_back({prefix + "atomics",
                      "MPI_Fetch_and_op, MPI_Compare_and_swap" + kinds,
                      run_atomics, mine, window, staging::any});
}

} // namespace

void add_windows(std::vector<test_case> *cases)
{
    for (memory mine : {memory::device, memory::host}) {
        for (memory window : {memory::device, memory::host}) {
            add_operations(cases, mine, window,
                           std::make_index_sequence<std::size(operations)>());
        }
    }
    for (memory first : {memory::device, memory::host}) {
        for (memory second : {memory::device, memory::host}) {
            const std::string kinds = std::string(": from ") + name_of(first) +
                                      " to " + name_of(second) + " memory";
            cases->push_back({"allocated-window", "MPI_Win_allocate" + kinds,
                              run_allocated, first, second, staging::follows});
            // In it, MPI copies.
            cases->push_back({"shared-window",
                              "MPI_Win_allocate_shared" + kinds, run_shared,
                              first, second, staging::any});
        }
    }
}

} // namespace ucx_ib_dmabuf::test
