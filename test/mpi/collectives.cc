// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives. An MPI that is built with CUDA runs every one, in both forms,
// with each rank's own part. One without CUDA copies the own part and computes
// with the CPU: it runs those that compute nothing, with the own part in place
// (MPI_IN_PLACE) or empty.
#include "collective.h"
#include "compared.h"

namespace ucx_ib_dmabuf::test {
namespace {

enum class own_part { anywhere, in_place, none };

struct variant {
    form as = blocking;
    // Small counts use other algorithms in Open MPI, and in UCX.
    std::vector<int> counts = {5, 1000, 40009};
    own_part own            = own_part::anywhere;
    MPI_Op op               = MPI_SUM;
};

void run_root(job &in, const collective &one, const variant &with,
              const parts &p, int root, const two_buffers &kinds, size_t copies)
{
    const auto run = [&](uint8_t *send, uint8_t *receive) {
        const call plain = {p, root, in.rank, with.op, send, receive};
        make(one, with.as,
             (with.own == own_part::in_place) ? put_in_place(one, plain)
                                              : plain);
    };

    compare_with_host(in, kinds, run,
                      static_cast<size_t>(p.count) * element >= rendezvous,
                      copies);
}

void run_one(job &in, const collective &one, const variant &with,
             two_buffers kinds, int count)
{
    parts p(in.size, count, one.equal ? 0 : 1001);
    size_t copies = 0;

    kinds.sent = kinds.received = static_cast<size_t>(p.total) * element;
    if (with.own == own_part::anywhere) {
        // Except in blocking calls, Open MPI packs and unpacks the own part,
        // through host memory.
        copies = static_cast<size_t>(p.counts[static_cast<size_t>(in.rank)]) *
                 element * static_cast<size_t>(one.own) *
                 ((with.as == blocking) ? 1 : 2);
    } else if (with.own == own_part::none) {
        p.drop(in.rank);
    }
    for (int root = 0; root < (one.rooted ? in.size : 1); ++root) {
        run_root(in, one, with, p, root, kinds, copies);
    }
}

void run_each(job &in, std::span<const collective> all, const variant &with,
              const two_buffers &kinds)
{
    for (const collective &one : all) {
        const std::string before = in.failure;
        if ((with.own != own_part::in_place) ||
            (one.in_place != place::nowhere) || (one.own == 0)) {
            for (int count : with.counts) {
                run_one(in, one, with, kinds, count);
            }
        }
        if (before.empty() && !in.failure.empty()) {
            in.failure = one.names[with.as] + (": " + in.failure);
        }
    }
}

// Collectives that move data.
void run_moving(job &in, const variant &with, const two_buffers &kinds)
{
    run_each(in, gathers(), with, kinds);
    run_each(in, exchanges(), with, kinds);
}

void run_without_own(job &in, memory first, memory second)
{
    const two_buffers kinds = same_kinds(in, first, second);

    run_each(in, gathers(), {blocking, {37501}, own_part::in_place}, kinds);
    run_each(in, exchanges().subspan(1, 1), // MPI_Alltoallv
             {blocking, {37501}, own_part::none}, kinds);
}

// Each rank sends from its own GPU and receives on another.
void run_apart(job &in, const std::vector<int> &counts)
{
    two_buffers kinds = crossed_kinds(memory::device, memory::device);

    in.expect(gpu::count() >= 2, "there is only one GPU");
    kinds.apart = true;
    run_moving(in, {blocking, counts}, kinds);
    run_moving(in, {nonblocking, counts}, kinds);
}

void run_reductions(job &in, const two_buffers &kinds)
{
    for (MPI_Op op : {MPI_SUM, MPI_BXOR}) {
        run_each(in, reductions(),
                 {blocking, {1, 1000, 40009}, own_part::anywhere, op}, kinds);
        run_each(in, reductions(), {blocking, {40009}, own_part::in_place, op},
                 kinds);
    }
}

// Open MPI 4.1 computes these with the CPU, in the memory of the data. With GPU
// memory each of them ends the job, so each is a group.
void add_unaware(std::vector<test_case> *cases)
{
    for (const collective &one : reductions()) {
        cases->push_back({one.names[nonblocking], one.names[nonblocking],
                          [&one](job &in, memory first, memory second) {
                              run_one(in, one, {nonblocking},
                                      crossed_kinds(first, second), 40009);
                          },
                          memory::device, memory::device, staging::any});
    }
}

} // namespace

void add_collectives(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device,
                 managed = memory::managed;
    const auto add       = [cases](const char *group, const std::string &name,
                             memory first, memory second, auto run,
                             staging expected = staging::follows) {
        cases->push_back({group,
                          name + ": " + name_of(first) + ", " + name_of(second),
                          run, first, second, expected});
    };
    // If the kinds differ, also from one kind to the other.
    const auto add_both = [&](const char *group, const std::string &name,
                              memory first, memory second,
                              void (*run)(job &, const two_buffers &),
                              staging expected = staging::follows) {
        add(
            group, name, first, second,
            [run](job &in, memory a, memory b) {
                run(in, same_kinds(in, a, b));
            },
            expected);
        if (first != second) {
            add(
                group, name + " from one to the other", first, second,
                [run](job &in, memory a, memory b) {
                    run(in, crossed_kinds(a, b));
                },
                expected);
        }
    };

    add("collectives", "collectives", device, device, run_without_own);
    add("collectives", "collectives", host, device, run_without_own);
    add("collectives", "collectives", host, host, run_without_own,
        staging::never);
    for (const auto &[first, second] :
         {std::pair(device, device), {host, device}, {device, host}}) {
        add_both("all_collectives", "collectives", first, second,
                 [](job &in, const two_buffers &kinds) {
                     run_moving(in, {}, kinds);
                 });
        add_both("all_collectives", "non-blocking collectives", first, second,
                 [](job &in, const two_buffers &kinds) {
                     run_moving(in, {nonblocking}, kinds);
                 });
        add_both("reductions", "reductions", first, second, run_reductions,
                 staging::any);
    }
    // For jobs of many ranks, which take long.
    add_both("ranks", "reductions", device, device, run_reductions,
             staging::any);
    add_both("reductions", "reductions", managed, device, run_reductions,
             staging::any);
    add("large_apart", "collectives from GPU to GPU, large", device, device,
        [](job &in, memory, memory) { run_apart(in, {40009}); });
    add(
        "small_apart", "collectives from GPU to GPU, small", device, device,
        [](job &in, memory, memory) {
            run_apart(in, {5, 1000});
        },
        staging::any);
    add_unaware(cases);
}

} // namespace ucx_ib_dmabuf::test
