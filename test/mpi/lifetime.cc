// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that is freed otherwise than between two messages of the sending
// thread: in another thread, during its message, in the order of a stream. And
// whether the NIC has freed memory registered still.
#include "job.h"
#include <array>
#include <common/nic.h>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t length = (1 << 20) + 11;

// Another thread frees and reallocates the memory of the last message, while
// this thread sends other memory.
void run_other_thread(job &in, memory kind, memory)
{
    buffer kept(kind, length);
    auto mine = std::make_unique<buffer>(kind, length);

    for (int round = 0; round < 6; ++round) {
        in.exchange(mine->at(), kind, length);
        std::thread other([&mine, kind, device = gpu::current()] {
            gpu::use(device);
            for (int i = 0; i < 20; ++i) {
                mine.reset();
                mine = std::make_unique<buffer>(kind, length);
            }
        });
        in.exchange(kept.at(), kind, length);
        in.exchange(kept.at(3), kind, rendezvous);
        other.join();
    }
    in.exchange(mine->at(), kind, length);
}

constexpr size_t large_length = 16 << 20;

// Returns when the first bytes have arrived, or the message is complete.
void wait_for_first_bytes(const buffer &incoming, MPI_Request *request,
                          uint64_t blank)
{
    int done = 0;

    while (!done &&
           incoming.compare(0, sizeof(uint64_t), blank) == no_difference) {
        MPI_Test(request, &done, MPI_STATUS_IGNORE);
    }
}

void start_bystanders(job &in, const std::array<buffer *, 2> &others,
                      std::array<MPI_Request, 2> *requests, uint64_t number)
{
    for (size_t i = 0; i < others.size(); ++i) {
        const int tag = static_cast<int>(i) + 2;
        if (in.rank == 0) {
            others[i]->put(0, length, number + i);
            MPI_Isend(others[i]->at(), length, MPI_BYTE, 1, tag, MPI_COMM_WORLD,
                      &(*requests)[i]);
        } else {
            MPI_Irecv(others[i]->at(), length, MPI_BYTE, 0, tag, MPI_COMM_WORLD,
                      &(*requests)[i]);
        }
    }
}

constexpr int ended_with_error = 99; // known to test/mpi/functions.sh

// The message failed, as it may. The connection failed with it, so only the new
// memory at the same address can be checked, and the job ends here.
[[noreturn]] void end_with_error(job &in, const buffer &mine, uint64_t third,
                                 int careless)
{
    if (in.rank == careless) {
        in.expect_message(mine, 0, mine.size(), third);
    }
    std::printf("%s - %s%s\n", in.failure.empty() ? "ok" : "not ok",
                "a message whose memory was released ended with an error",
                in.failure.c_str());
    std::printf("ok - so did the job\n");
    std::fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, ended_with_error);
    std::abort();
}

// A mistake of the program: one end frees its memory during the message. The
// bytes of that message are undefined, and it may fail. New memory at the same
// address and other messages must be correct.
void run_in_flight(job &in, int careless)
{
    const memory kind = memory::device;
    buffer first(kind, length), second(kind, length);
    const std::array<buffer *, 2> others = {&first, &second};

    for (int round = 0; round < 3; ++round) {
        auto mine             = std::make_unique<buffer>(kind, large_length);
        const uint8_t *place  = mine->at();
        const uint64_t number = in.next_number(5), blank = number + 1,
                       third = number + 2, others_at = number + 3;
        std::array<MPI_Request, 2> requests;
        MPI_Request request;
        char token = 0;

        mine->put(0, large_length, in.rank == 0 ? number : blank);
        if (in.rank == 1) { // a pattern of the length that is compared
            mine->put(0, sizeof(uint64_t), blank);
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (in.rank == 0) {
            MPI_Isend(mine->at(), large_length, MPI_BYTE, 1, 0, MPI_COMM_WORLD,
                      &request);
            start_bystanders(in, others, &requests, others_at);
            MPI_Recv(&token, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else {
            MPI_Irecv(mine->at(), large_length, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
                      &request);
            wait_for_first_bytes(*mine, &request, blank);
            start_bystanders(in, others, &requests, others_at);
            MPI_Send(&token, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD);
        }
        if (in.rank == careless) {
            mine.reset();
            mine = std::make_unique<buffer>(kind, large_length);
            in.expect(mine->at() == place, "the memory came back elsewhere");
            mine->put(0, large_length, third);
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        if (MPI_Wait(&request, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            end_with_error(in, *mine, third, careless);
        }
        MPI_Waitall(2, requests.data(), MPI_STATUSES_IGNORE);
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
        if (in.rank == careless) {
            in.expect_message(*mine, 0, large_length, third);
        }
        in.expect_message(first, 0, length, others_at);
        in.expect_message(second, 0, length, others_at + 1);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

// Memory is allocated, sent and freed in the order of two streams, with no more
// waiting than a program needs. The pool reuses freed memory at once.
void run_streams(job &in, memory, memory)
{
    struct piece {
        CUdeviceptr data = 0;
        CUstream stream  = nullptr;
    };
    std::array<CUstream, 2> streams = {};
    std::array<piece, 3> pieces;

    for (CUstream &one : streams) {
        GPU_CALL(cuStreamCreate, &one, CU_STREAM_NON_BLOCKING);
    }
    for (int round = 0; round < 40; ++round) {
        piece &one        = pieces[in.random() % pieces.size()];
        const size_t size = rendezvous + in.random() % (1 << 20);

        if (one.data) {
            GPU_CALL(cuMemFreeAsync, one.data, one.stream);
        }
        one.stream = streams[in.random() % streams.size()];
        GPU_CALL(cuMemAllocAsync, &one.data, size, one.stream);
        if (in.random() % 4 == 0) {
            GPU_CALL(cuStreamSynchronize, one.stream);
        }
        in.exchange(reinterpret_cast<uint8_t *>(one.data), memory::pool, size);
    }
    for (const piece &one : pieces) {
        if (one.data) {
            GPU_CALL(cuMemFreeAsync, one.data, one.stream);
        }
    }
    for (CUstream one : streams) {
        GPU_CALL(cuStreamSynchronize, one);
        GPU_CALL(cuStreamDestroy, one);
    }
}

// Another thread deregisters large regions soon, but not at once. Polls until
// none is left, or so long that the rest must be leaked.
void run_pinned(job &in, memory kind, memory)
{
    constexpr size_t segment = 2 << 20;
    const auto pinned        = [] { return nic::counters().live_bytes; };

    for (size_t size : {3 * segment, 7 * segment, 11 * segment}) {
        const uint64_t before = pinned();
        auto mine             = std::make_unique<buffer>(kind, size);
        in.exchange(mine->at(), kind, size);
        in.expect(pinned() >= before + size, "it was not registered at all");
        mine.reset();
        for (int asked = 0; pinned() > before && asked < 3000; ++asked) {
            usleep(10000);
        }
        in.expect(pinned() <= before, std::to_string(size) +
                                          " bytes were released, and are " +
                                          "registered still");
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

} // namespace

void add_lifetime(case_list &cases)
{
    const auto in_flight_of = [](int careless) {
        return [=](job &in, memory, memory) { run_in_flight(in, careless); };
    };

    cases.add("lifetime", "released in another thread", run_other_thread);
    cases.add("sent", "released while it is sent", in_flight_of(0),
              memory::device, staging::any);
    cases.add("received", "released while it is received", in_flight_of(1),
              memory::device, staging::any);
    cases.add("streams", "allocated and freed in streams", run_streams,
              memory::pool);
    for (memory kind : {memory::device, memory::vmm}) {
        cases.add("pinned", "not registered after its release", run_pinned,
                  kind);
    }
}

} // namespace ucx_ib_dmabuf::test
