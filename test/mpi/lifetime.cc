// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that is freed otherwise than between two messages of the sending
// thread: in another thread, during its message, in the order of a stream.
#include "exchange.h"
#include "pattern.h"
#include <array>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <thread>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t length = (1 << 20) + 11;

// Runs the function in another thread, on the same GPU.
template <typename function>
std::thread elsewhere(function &&run)
{
    return std::thread([device = gpu::current(), run] {
        gpu::use(device);
        run();
    });
}

// Another thread frees and reallocates the memory of the last message, while
// this thread sends other memory.
void run_other_thread(job &in, memory kind, memory)
{
    buffer kept(kind, length);
    auto mine = std::make_unique<buffer>(kind, length);

    for (int round = 0; round < 6; ++round) {
        exchange_at(in, mine->at(), kind, length);
        std::thread other = elsewhere([&mine, kind] {
            for (int i = 0; i < 20; ++i) {
                mine.reset();
                mine = std::make_unique<buffer>(kind, length);
            }
        });
        exchange_at(in, kept.at(), kind, length);
        exchange_at(in, kept.at(3), kind, rendezvous);
        other.join();
    }
    exchange_at(in, mine->at(), kind, length);
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
        const uint64_t number = in.next_number(), blank = in.next_number();
        const uint64_t third = in.next_number(), others_at = in.next_number();
        std::array<MPI_Request, 2> requests;
        MPI_Request request;
        char token = 0;

        in.next_number();
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

template <int careless>
void run_in_flight_of(job &in, memory, memory)
{
    run_in_flight(in, careless);
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
        exchange_at(in, reinterpret_cast<uint8_t *>(one.data), memory::pool,
                    size);
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

} // namespace

void add_lifetime(std::vector<test_case> *cases)
{
    const memory device = memory::device;

    cases->push_back({"lifetime", "released in another thread",
                      run_other_thread, device, device, staging::follows});
    cases->push_back({"sent", "released while it is sent", run_in_flight_of<0>,
                      device, device, staging::any});
    cases->push_back({"received", "released while it is received",
                      run_in_flight_of<1>, device, device, staging::any});
    cases->push_back({"streams", "allocated and freed in streams", run_streams,
                      memory::pool, memory::pool, staging::follows});
}

} // namespace ucx_ib_dmabuf::test
