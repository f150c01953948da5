// SPDX-License-Identifier: BSD-3-Clause
//
// Runs one scenario of the comparison in two ranks.
// usage: side_by_side FIGURES SCENARIO [ARGUMENT]...
// Each rank writes its figures to FIGURES.RANK, one line "NAME VALUE" each. The
// last line of a name counts. The scenario's own calls, copies, exports and
// registrations, measured in a dry run, are subtracted.
#include "run.h"
#include <cinttypes>
#include <common/gpu.h>
#include <common/nic.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mpi.h>
#include <mpi/buffer.h>

namespace ucx_ib_dmabuf::test {
namespace {

// Requests of this process and its libraries to driver and NIC so far.
struct tally {
    uint64_t driver_calls, copied_bytes, exports, registrations;

    static tally now();
    tally since(const tally &before) const;
};

tally tally::now()
{
    cuda_sim_counters_t counters = {};

    SIM_CALL(cuda_sim_counters, &counters);
    return {SIM_CALL(cuda_sim_calls, nullptr), gpu::copied_bytes(),
            counters.exports, nic::counters().registrations};
}

tally tally::since(const tally &before) const
{
    return {driver_calls - before.driver_calls,
            copied_bytes - before.copied_bytes, exports - before.exports,
            registrations - before.registrations};
}

using scenario = void (*)(run &, const arguments &);

const std::map<std::string, scenario> scenarios = {{"trace", replay_trace},
                                                   {"free", free_used},
                                                   {"again", use_again},
                                                   {"turn", in_turn},
                                                   {"vmm", several_handles}};

tally cost_of(scenario body, run &in, const arguments &how)
{
    const tally before = tally::now();

    body(in, how);
    return tally::now().since(before);
}

void run_both(scenario body, run &in, const arguments &how)
{
    const tally own    = cost_of(body, in, how);
    const tally before = tally::now();

    MPI_Init(nullptr, nullptr);
    in.figure("start_calls", tally::now().since(before).driver_calls);
    in.begin_messages();
    const tally all = cost_of(body, in, how).since(own);
    in.figure("driver_calls", all.driver_calls);
    in.figure("copied", all.copied_bytes);
    in.figure("exports", all.exports);
    in.figure("registrations", all.registrations);
    MPI_Finalize();
}

} // namespace

uint64_t pinned_bytes()
{
    return nic::counters().live_bytes;
}

run::run(int rank, const char *figures)
    : rank_(rank), figures_(figures + ("." + std::to_string(rank)))
{
}

void run::figure(const char *name, uint64_t value) const
{
    FILE *file = std::fopen(figures_.c_str(), "a");

    if (file == nullptr) {
        throw std::runtime_error("cannot write " + figures_);
    }
    std::fprintf(file, "%s %" PRIu64 "\n", name, value);
    std::fclose(file);
}

void run::begin_messages()
{
    dry_   = false;
    next_  = 0;
    right_ = 0;
    figure("right", 0); // for a job that stops early
}

void run::message(uint8_t *at, size_t length)
{
    const uint64_t number = ++next_;
    const int count       = static_cast<int>(length);
    const bool sends      = (number + rank_) % 2 == 0;

    // The old contents must differ from the message.
    put_message(memory::device, at, length, sends ? number : ~number);
    if (dry_) {
        right_ += !sends;
        if (!sends) {
            compare_message(memory::device, at, length, number);
            figure("messages", right_);
        }
    } else if (sends) {
        // By MPI_Send() UCX alone stages messages of some megabytes
        // (docs/comparison.md), and registers nothing to compare.
        MPI_Request request;
        MPI_Isend(at, count, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(at, count, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        right_ += compare_message(memory::device, at, length, number) ==
                  no_difference;
        figure("right", right_);
    }
}

} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
try {
    using namespace ucx_ib_dmabuf::test;
    const char *rank = std::getenv("OMPI_COMM_WORLD_RANK");
    const auto found = scenarios.find(argc > 2 ? argv[2] : "");

    if (found == scenarios.end() || rank == nullptr || gpu::count() == 0) {
        std::fprintf(stderr,
                     "usage: mpirun -np 2 side_by_side FIGURES SCENARIO\n");
        return 2;
    }
    run in(std::atoi(rank), argv[1]);
    gpu::use(in.rank() % gpu::count());
    run_both(found->second, in, arguments(argv + 3, argv + argc));
    return 0;
} catch (const std::exception &error) {
    std::fprintf(stderr, "side_by_side: %s\n", error.what());
    return 1;
}
