// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that is freed and allocated again at the same address between two
// messages. A registration that outlived its memory would send the old bytes,
// or receive into memory that the program cannot see.
#include "job.h"
#include <optional>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t message_length = (1 << 20) + 7;
constexpr size_t length         = 4 << 20; // of the allocation
constexpr int rounds            = 5;

// A way to allocate and free memory.
struct source {
    virtual ~source()                        = default;
    virtual CUdeviceptr allocate()           = 0;
    virtual void release(CUdeviceptr memory) = 0;
};

struct by_malloc : source {
    CUdeviceptr allocate() override
    {
        CUdeviceptr memory = 0;
        GPU_CALL(cuMemAlloc, &memory, length);
        return memory;
    }
    void release(CUdeviceptr memory) override { GPU_CALL(cuMemFree, memory); }
};

// A pool may return the same memory again, but not after a trim.
template <bool trim>
struct by_pool : source {
    CUdeviceptr allocate() override
    {
        CUdeviceptr memory = 0;
        GPU_CALL(cuMemAllocAsync, &memory, length, nullptr);
        GPU_CALL(cuStreamSynchronize, nullptr);
        return memory;
    }
    void release(CUdeviceptr memory) override
    {
        GPU_CALL(cuMemFreeAsync, memory, nullptr);
        GPU_CALL(cuStreamSynchronize, nullptr);
        if (trim) {
            CUmemoryPool pool;
            GPU_CALL(cuDeviceGetDefaultMemPool, &pool, gpu::current());
            GPU_CALL(cuMemPoolTrimTo, pool, 0);
        }
    }
};

// Maps another handle at the same address, in the same or a new reservation.
template <bool keep>
struct by_mapping : source {
    CUdeviceptr allocate() override
    {
        if (!place_) {
            place_.emplace(length, wanted_);
        }
        memory_.emplace(length);
        memory_->map(wanted_ = place_->address());
        return wanted_;
    }
    void release(CUdeviceptr) override
    {
        memory_->unmap(wanted_);
        memory_.reset();
        if (!keep) {
            place_.reset();
        }
    }

    CUdeviceptr wanted_ = 0;
    std::optional<gpu::reservation> place_;
    std::optional<gpu::physical> memory_;
};

// Frees all memory of a GPU at once. It is the other GPU, as a reset of this
// one would destroy UCX's own streams.
struct by_context : by_malloc {
    by_context() { gpu::use(other_); }
    by_context(const by_context &)            = delete;
    by_context &operator=(const by_context &) = delete;
    ~by_context() override { gpu::use(first_); }
    void release(CUdeviceptr) override
    {
        GPU_CALL(cuDevicePrimaryCtxReset, other_);
        gpu::use(other_);
    }

    const int first_ = gpu::current();
    const int other_ = (first_ + 1) % gpu::count();
};

// Allocates memory at the wanted address, and holds other memory meanwhile.
CUdeviceptr allocate_again(source &from, CUdeviceptr wanted)
{
    std::vector<CUdeviceptr> others;
    CUdeviceptr memory = from.allocate();

    while (memory != wanted && others.size() < 64) {
        others.push_back(memory);
        memory = from.allocate();
    }
    for (CUdeviceptr other : others) {
        from.release(other);
    }
    return memory;
}

// Sends one message; the direction changes every round.
void send_round(job &in, CUdeviceptr at, int round)
{
    in.one_way(reinterpret_cast<uint8_t *>(at + 1), memory::device,
               message_length, round % 2);
}

template <class kind>
void run(job &in, memory, memory)
{
    kind from;
    CUdeviceptr at = from.allocate();

    for (int round = 0; round < rounds; ++round) {
        // Sends in each direction, so that both ends have used the memory
        // before it is freed.
        send_round(in, at, round);
        send_round(in, at, round + 1);
        from.release(at);
        const CUdeviceptr again = allocate_again(from, at);
        in.expect(again == at, "the memory came back at another address");
        at = again;
    }
    from.release(at);
}

void run_many(job &in, memory kind, memory)
{
    std::vector<std::unique_ptr<buffer>> all;

    for (int i = 0; i < 6; ++i) {
        all.push_back(std::make_unique<buffer>(kind, length));
    }
    for (int round = 0; round < 2 * rounds; ++round) {
        for (const auto &each : all) {
            in.one_way(each->at(1), kind, message_length, round % 2);
        }
    }
}

} // namespace

void add_reuse(case_list &cases)
{
    const std::string again = "memory used again: ";

    cases.add("reuse", again + "cuMemFree", run<by_malloc>);
    cases.add("reuse", again + "cuMemFreeAsync", run<by_pool<false>>);
    cases.add("reuse", again + "cuMemFreeAsync and a trimmed pool",
              run<by_pool<true>>);
    cases.add("reuse", again + "another handle at a VMM address",
              run<by_mapping<true>>);
    cases.add("reuse", again + "a VMM address reserved again",
              run<by_mapping<false>>);
    // UCX from 1.18 on crashes in this case, with the plug-in or without.
    cases.add("reset", again + "cuDevicePrimaryCtxReset", run<by_context>);
    cases.add("kept", "many buffers in turn", run_many);
}

} // namespace ucx_ib_dmabuf::test
