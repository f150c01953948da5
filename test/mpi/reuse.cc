// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that is freed and allocated again at the same address between two
// messages. A registration that outlived its memory would send the old bytes,
// or receive into memory that the program cannot see.
#include "exchange.h"
#include <optional>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t message_length = (1 << 20) + 7;
constexpr size_t length         = 4 << 20; // of the allocation
constexpr int rounds            = 5;

uint8_t *as_data(CUdeviceptr pointer)
{
    return reinterpret_cast<uint8_t *>(pointer);
}

// A way to allocate and free memory.
struct source {
    virtual ~source()                   = default;
    virtual uint8_t *allocate()         = 0;
    virtual void release(uint8_t *data) = 0;
};

struct by_malloc : source {
    uint8_t *allocate() override
    {
        CUdeviceptr pointer;
        GPU_CALL(cuMemAlloc, &pointer, length);
        return as_data(pointer);
    }
    void release(uint8_t *data) override
    {
        GPU_CALL(cuMemFree, as_pointer(data));
    }
};

struct by_pitch : by_malloc {
    uint8_t *allocate() override
    {
        CUdeviceptr pointer;
        size_t pitch;
        GPU_CALL(cuMemAllocPitch, &pointer, &pitch, 64 << 10,
                 length / (64 << 10), 16);
        return as_data(pointer);
    }
};

// A pool may return the same memory again, but not after a trim.
template <bool trim>
struct by_pool : source {
    uint8_t *allocate() override
    {
        CUdeviceptr pointer;
        GPU_CALL(cuMemAllocAsync, &pointer, length, nullptr);
        GPU_CALL(cuStreamSynchronize, nullptr);
        return as_data(pointer);
    }
    void release(uint8_t *data) override
    {
        GPU_CALL(cuMemFreeAsync, as_pointer(data), nullptr);
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
    uint8_t *allocate() override
    {
        if (!place_) {
            place_.emplace(length, wanted_);
        }
        memory_.emplace(length);
        memory_->map(wanted_ = place_->address());
        return place_->at();
    }
    void release(uint8_t *) override
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
    void release(uint8_t *) override
    {
        GPU_CALL(cuDevicePrimaryCtxReset, other_);
        gpu::use(other_);
    }

    const int first_ = gpu::current();
    const int other_ = (first_ + 1) % gpu::count();
};

// Allocates memory at the wanted address, and holds other memory meanwhile.
uint8_t *allocate_again(source &from, const uint8_t *wanted)
{
    std::vector<uint8_t *> others;
    uint8_t *data = from.allocate();

    while (data != wanted && others.size() < 64) {
        others.push_back(data);
        data = from.allocate();
    }
    for (uint8_t *other : others) {
        from.release(other);
    }
    return data;
}

// Sends one message; the direction changes every round.
void send_round(job &in, uint8_t *data, int round)
{
    one_way(in, data + 1, memory::device, message_length, round % 2);
}

template <class kind>
void run(job &in, memory, memory)
{
    kind from;
    uint8_t *data = from.allocate();

    for (int round = 0; round < rounds; ++round) {
        // Sends in each direction, so that both ends have used the memory
        // before it is freed.
        send_round(in, data, round);
        send_round(in, data, round + 1);
        from.release(data);
        uint8_t *again = allocate_again(from, data);
        in.expect(again == data, "the memory came back at another address");
        data = again;
    }
    from.release(data);
}

void run_many(job &in, memory, memory)
{
    by_malloc from;
    uint8_t *all[6];

    for (uint8_t *&each : all) {
        each = from.allocate();
    }
    for (int round = 0; round < 2 * rounds; ++round) {
        for (uint8_t *each : all) {
            send_round(in, each, round);
        }
    }
    for (uint8_t *each : all) {
        from.release(each);
    }
}

} // namespace

void add_reuse(std::vector<test_case> *cases)
{
    const auto add = [cases](const char *name,
                             void (*body)(job &, memory, memory)) {
        cases->push_back(
            {"reuse", std::string("memory used again: ") + name, body});
    };

    add("cuMemFree", run<by_malloc>);
    add("cuMemAllocPitch", run<by_pitch>);
    add("cuMemFreeAsync", run<by_pool<false>>);
    add("cuMemFreeAsync and a trimmed pool", run<by_pool<true>>);
    add("another handle at a VMM address", run<by_mapping<true>>);
    add("a VMM address reserved again", run<by_mapping<false>>);
    // UCX from 1.18 on crashes in this case, with the plug-in or without.
    cases->push_back({"reset", "memory used again: cuDevicePrimaryCtxReset",
                      run<by_context>});
    cases->push_back({"kept", "many buffers in turn", run_many});
}

} // namespace ucx_ib_dmabuf::test
