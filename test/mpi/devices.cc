// SPDX-License-Identifier: BSD-3-Clause
//
// Several GPUs in one process, and threads without a current context.
#include "exchange.h"
#include <mpi.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t length = 1 << 20;

// Sends from every GPU of rank 0 to every GPU of rank 1. In half of the cases
// the current context is not that of the message's GPU.
void run_two_devices(job &in, memory kind, memory)
{
    std::vector<std::unique_ptr<buffer>> buffers;
    const int devices = gpu::count();
    const auto send   = [&](buffer &outgoing, buffer &incoming) {
        if (in.rank > 1) {
            in.next_number(); // which all ranks count alike
        } else {
            one_way(in, (in.rank == 0 ? outgoing : incoming).at(), kind, length,
                      0);
        }
    };

    in.expect(devices >= 2, "there is only one GPU");
    for (int i = 0; i < devices; ++i) {
        gpu::use(i);
        buffers.push_back(std::make_unique<buffer>(kind, length));
        // The plug-in checks the path of each GPU before its first message, by
        // copies, which are not counted.
        const uint64_t staged = in.staged;
        send(*buffers.back(), *buffers.back());
        in.staged = staged;
    }
    for (int current = 0; current < devices; ++current) {
        gpu::use(current);
        for (auto &outgoing : buffers) {
            for (auto &incoming : buffers) {
                send(*outgoing, *incoming);
            }
        }
    }
    for (int i = 0; i < devices; ++i) {
        gpu::use(i);
        buffers[static_cast<size_t>(i)].reset();
    }
    gpu::use(in.rank % devices);
}

// Rank 0 sends and rank 1 receives, both without a current context.
void run_no_context(job &in, memory, memory)
{
    buffer data(memory::device, length);
    const uint64_t number = in.next_number();

    if (in.rank == 0) {
        data.put(0, length, number);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    GPU_CALL(cuCtxSetCurrent, nullptr);
    {
        job::copies counted(in);
        if (in.rank == 0) {
            MPI_Send(data.at(), length, MPI_BYTE, 1, 0, MPI_COMM_WORLD);
        } else if (in.rank == 1) {
            MPI_Recv(data.at(), length, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        }
    }
    gpu::use(in.rank % gpu::count());
    if (in.rank == 1) {
        in.expect_message(data, 0, length, number);
    }
}

} // namespace

void add_devices(std::vector<test_case> *cases)
{
    cases->push_back({"devices", "two GPUs in one process", run_two_devices,
                      memory::device, memory::device});
    cases->push_back({"vmm", "two GPUs in one process, VMM memory",
                      run_two_devices, memory::vmm, memory::vmm});
    cases->push_back({"context", "no current context", run_no_context,
                      memory::device, memory::device});
}

} // namespace ucx_ib_dmabuf::test
