// SPDX-License-Identifier: BSD-3-Clause
//
// Collectives in both forms, for an MPI that is built with CUDA. One without it
// copies a rank's own part with the CPU.
#include "job.h"

namespace ucx_ib_dmabuf::test {
namespace {

// The parts of both buffers, one for each rank, in elements.
struct parts {
    // Each part is larger than the one before by `growth` elements.
    parts(int ranks, int first, int growth) : count(first)
    {
        for (int i = 0; i < ranks; ++i) {
            counts.push_back(count + i * growth);
            offsets.push_back(total);
            byte_offsets.push_back(total * static_cast<int>(element));
            types.push_back(type());
            total += counts.back();
        }
    }

    std::vector<int> counts, offsets, byte_offsets;
    std::vector<MPI_Datatype> types;
    int count; // of each part, if all are equal
    int total = 0;
};

struct call {
    const parts &p;
    int root;
    int me;
    MPI_Op op;
    void *send;
    void *receive;
    MPI_Request *request = nullptr; // make() sets it

    int mine() const { return p.counts[static_cast<size_t>(me)]; }
};

// The form of a call.
enum form { blocking, nonblocking };

struct collective {
    const char *names[2]; // for each form
    bool rooted;
    bool equal; // all parts have the same size
    int own;    // copies of the own part that the blocking call may make
    void (*run[2])(const call &);
};

// Both forms of MPI_NAME, and their arguments.
#define COLLECTIVE(NAME, LOWER, ROOTED, EQUAL, OWN, ...)                       \
    {                                                                          \
        {"MPI_" #NAME, "MPI_I" #LOWER}, ROOTED, EQUAL, OWN,                    \
        {                                                                      \
            [](const call &c) { MPI_##NAME(__VA_ARGS__); },                    \
                [](const call &c) { MPI_I##LOWER(__VA_ARGS__, c.request); }    \
        }                                                                      \
    }
// Arguments that several calls share.
#define EQUAL_PARTS c.send, c.p.count, type(), c.receive, c.p.count, type()
#define GATHERED_PARTS                                                         \
    c.send, c.mine(), type(), c.receive, c.p.counts.data(),                    \
        c.p.offsets.data(), type()
#define ALL_PARTS                                                              \
    c.send, c.p.counts.data(), c.p.offsets.data(), type(), c.receive,          \
        c.p.counts.data(), c.p.offsets.data(), type()
#define REDUCED(count) c.send, c.receive, count, type(), c.op

// Also scatters, and a broadcast.
const collective gathers[] = {
    COLLECTIVE(Bcast, bcast, true, true, 0, c.receive, c.p.count, type(),
               c.root, MPI_COMM_WORLD),
    COLLECTIVE(Gather, gather, true, true, 1, EQUAL_PARTS, c.root,
               MPI_COMM_WORLD),
    COLLECTIVE(Gatherv, gatherv, true, false, 1, GATHERED_PARTS, c.root,
               MPI_COMM_WORLD),
    COLLECTIVE(Scatter, scatter, true, true, 1, EQUAL_PARTS, c.root,
               MPI_COMM_WORLD),
    COLLECTIVE(Scatterv, scatterv, true, false, 1, c.send, c.p.counts.data(),
               c.p.offsets.data(), type(), c.receive, c.mine(), type(), c.root,
               MPI_COMM_WORLD),
    COLLECTIVE(Allgather, allgather, false, true, 1, EQUAL_PARTS,
               MPI_COMM_WORLD),
    COLLECTIVE(Allgatherv, allgatherv, false, false, 1, GATHERED_PARTS,
               MPI_COMM_WORLD),
};

const collective exchanges[] = {
    COLLECTIVE(Alltoall, alltoall, false, true, 1, EQUAL_PARTS, MPI_COMM_WORLD),
    COLLECTIVE(Alltoallv, alltoallv, false, true, 1, ALL_PARTS, MPI_COMM_WORLD),
    COLLECTIVE(Alltoallw, alltoallw, false, true, 1, c.send, c.p.counts.data(),
               c.p.byte_offsets.data(), c.p.types.data(), c.receive,
               c.p.counts.data(), c.p.byte_offsets.data(), c.p.types.data(),
               MPI_COMM_WORLD),
};

const collective reductions[] = {
    COLLECTIVE(Reduce, reduce, true, true, 0, REDUCED(c.p.count), c.root,
               MPI_COMM_WORLD),
    COLLECTIVE(Allreduce, allreduce, false, true, 0, REDUCED(c.p.count),
               MPI_COMM_WORLD),
    COLLECTIVE(Reduce_scatter, reduce_scatter, false, true, 0,
               REDUCED(c.p.counts.data()), MPI_COMM_WORLD),
    COLLECTIVE(Reduce_scatter_block, reduce_scatter_block, false, true, 0,
               REDUCED(c.p.count), MPI_COMM_WORLD),
    COLLECTIVE(Scan, scan, false, true, 0, REDUCED(c.p.count), MPI_COMM_WORLD),
    COLLECTIVE(Exscan, exscan, false, true, 0, REDUCED(c.p.count),
               MPI_COMM_WORLD),
};

// Makes the call and waits until it completes.
void make(const collective &one, form as, call with)
{
    MPI_Request request = MPI_REQUEST_NULL;

    with.request = &request;
    one.run[as](with);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
}

// Small counts use other algorithms in Open MPI, and in UCX.
struct variant {
    form as                 = blocking;
    std::vector<int> counts = {5, 1000, 40009};
    MPI_Op op               = MPI_SUM;
};

// Makes one call, with each rank as its root if it has one.
void run_one(job &in, const collective &one, const variant &with,
             two_buffers kinds, int count)
{
    const parts p(in.size, count, one.equal ? 0 : 1001);
    const int mine = p.counts[static_cast<size_t>(in.rank)];
    // Except in blocking calls, Open MPI packs and unpacks the own part,
    // through host memory.
    const size_t copies = static_cast<size_t>(mine) * element *
                          static_cast<size_t>(one.own) *
                          ((with.as == blocking) ? 1 : 2);

    kinds.sent = kinds.received = static_cast<size_t>(p.total) * element;
    for (int root = 0; root < (one.rooted ? in.size : 1); ++root) {
        compare_with_host(
            in, kinds,
            [&](uint8_t *send, uint8_t *receive) {
                make(one, with.as, {p, root, in.rank, with.op, send, receive});
            },
            static_cast<size_t>(count) * element >= in.blocking, copies);
    }
}

void run_each(job &in, std::span<const collective> all, const variant &with,
              const two_buffers &kinds)
{
    for (const collective &one : all) {
        in.run_part(one.names[with.as], [&] {
            for (int count : with.counts) {
                run_one(in, one, with, kinds, count);
            }
        });
    }
}

// Collectives that move data.
void run_moving(job &in, const variant &with, const two_buffers &kinds)
{
    run_each(in, gathers, with, kinds);
    run_each(in, exchanges, with, kinds);
}

// Each rank sends from its own GPU and receives on another.
case_function apart(const std::vector<int> &counts)
{
    return [=](job &in, memory first, memory second) {
        two_buffers kinds = {first, second};

        in.expect(gpu::count() >= 2, "there is only one GPU");
        kinds.apart = true;
        run_moving(in, {blocking, counts}, kinds);
        run_moving(in, {nonblocking, counts}, kinds);
    };
}

void run_reductions(job &in, const two_buffers &kinds)
{
    for (MPI_Op op : {MPI_SUM, MPI_BXOR}) {
        run_each(in, reductions, {blocking, {1, 1000, 40009}, op}, kinds);
    }
}

// A case of one call, from the first kind into the second.
case_function single(const collective &one, form as, int count)
{
    return [=, &one](job &in, memory first, memory second) {
        run_one(in, one, {as}, {first, second}, count);
    };
}

// Rank 0 sends and receives in the first kind of memory, the others in the
// second. If the kinds differ, also all ranks send from the first kind and
// receive into the second.
void add_both(case_list &cases, const char *group, const char *name,
              memory first, memory second,
              void (*run)(job &, const two_buffers &),
              staging expected = staging::follows)
{
    cases.add(
        group, name,
        [run](job &in, memory a, memory b) {
            const memory mine = in.mine_of(a, b);
            run(in, {mine, mine});
        },
        first, second, expected);
    if (first != second) {
        cases.add(
            group, name + std::string(", in each rank"),
            [run](job &in, memory a, memory b) {
                run(in, {a, b});
            },
            first, second, expected);
    }
}

} // namespace

void add_collectives(case_list &cases)
{
    const memory host = memory::host, device = memory::device;
    const std::pair<memory, memory> pairs[] = {
        {device, device}, {host, device}, {device, host}};

    for (const auto &[first, second] : pairs) {
        add_both(cases, "all_collectives", "collectives", first, second,
                 [](job &in, const two_buffers &kinds) {
                     run_moving(in, {}, kinds);
                 });
        add_both(cases, "all_collectives", "non-blocking collectives", first,
                 second, [](job &in, const two_buffers &kinds) {
                     run_moving(in, {nonblocking}, kinds);
                 });
        add_both(cases, "reductions", "reductions", first, second,
                 run_reductions, staging::any);
    }
    add_both(cases, "reductions", "reductions", memory::managed, device,
             run_reductions, staging::any);
    // For jobs of many ranks, which take long.
    add_both(cases, "ranks", "reductions", device, device, run_reductions,
             staging::any);
    cases.add("large_apart", "collectives from GPU to GPU, large",
              apart({40009}));
    cases.add("small_apart", "collectives from GPU to GPU, small",
              apart({5, 1000}), device, staging::any);
    // Open MPI 4.1 computes it with the CPU, in the memory of the data.
    cases.add("MPI_Iallreduce", "MPI_Iallreduce",
              single(reductions[1], nonblocking, 40009), device, staging::any);

    // Memory of every allocator, in all pairs.
    for (memory first : allocators) {
        for (memory second : allocators) {
            cases.add("allocators", "MPI_Alltoall",
                      single(exchanges[0], blocking, 20011), first, second,
                      staging_between(first, second));
            cases.add("allocators", "MPI_Allreduce",
                      single(reductions[1], blocking, 20011), first, second,
                      staging::any);
        }
    }
}

} // namespace ucx_ib_dmabuf::test
