// SPDX-License-Identifier: BSD-3-Clause
//
// Runs one scenario of the comparison in two ranks.
// usage: side_by_side FIGURES SCENARIO [ARGUMENT]...
// Each rank writes its figures to FIGURES.RANK, one line "NAME VALUE" each. The
// last line of a name counts. The scenario's own calls, copies, exports and
// registrations, measured in a dry run, are subtracted.
#include "run.h"
#include <common/gpu.h>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

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
