// SPDX-License-Identifier: BSD-3-Clause
//
// Asks the kernel whether the NIC has memory registered.
#include "exchange.h"
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

// Returns the number of regions of that many bytes that this process has
// registered; -1 if the kernel does not report them.
int count_regions(size_t bytes)
{
    const std::string command = "rdma resource show mr | grep -c 'mrlen " +
                                std::to_string(bytes) + " .*pid " +
                                std::to_string(getpid()) + " '";
    FILE *out = popen(command.c_str(), "r"); // NOLINT(cert-env33-c)
    int count = -1;

    if (out && std::fscanf(out, "%d", &count) != 1) {
        count = -1;
    }
    if (out) {
        pclose(out);
    }
    return count;
}

// Another thread deregisters large regions soon, but not at once. Polls until
// none is left, or so long that the rest must be leaked.
int count_lasting_regions(size_t bytes)
{
    int count = count_regions(bytes);

    for (int asked = 0; count != 0 && asked < 3000; ++asked) {
        usleep(10000);
        count = count_regions(bytes);
    }
    return count;
}

// Uses sizes that nothing else has.
void run_pinned(job &in, memory kind, memory)
{
    constexpr size_t segment = 2 << 20;
    const size_t sizes[]     = {3 * segment, 7 * segment, 11 * segment};

    for (size_t size : sizes) {
        auto mine = std::make_unique<buffer>(kind, size);
        exchange_at(in, mine->at(), kind, size);
        in.expect(count_regions(size) > 0, "it was not registered at all");
        mine.reset();
        in.expect(count_lasting_regions(size) == 0,
                  std::to_string(size) + " bytes were released, and are " +
                      "registered still");
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

} // namespace

void add_pinned(std::vector<test_case> *cases)
{
    for (memory kind : {memory::device, memory::vmm}) {
        cases->push_back(
            {"pinned",
             std::string("not registered after its release: ") + name_of(kind),
             run_pinned, kind, kind, staging::follows});
    }
}

} // namespace ucx_ib_dmabuf::test
