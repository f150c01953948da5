// SPDX-License-Identifier: BSD-3-Clause
#include "run.h"
#include <cinttypes>
#include <common/nic.h>
#include <common/sim.h>
#include <cstdio>
#include <mpi.h>
#include <mpi/buffer.h>

namespace ucx_ib_dmabuf::test {

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
        MPI_Send(at, count, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD);
    } else {
        MPI_Recv(at, count, MPI_BYTE, 1 - rank_, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
        right_ += compare_message(memory::device, at, length, number) ==
                  no_difference;
        figure("right", right_);
    }
}

} // namespace ucx_ib_dmabuf::test
