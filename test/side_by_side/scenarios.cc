// SPDX-License-Identifier: BSD-3-Clause
//
// Scenarios: the memory operations of programs between messages.
#include "run.h"
#include <common/gpu.h>
#include <fstream>
#include <map>
#include <memory>
#include <mpi.h>
#include <optional>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

using gpu::memory;

constexpr size_t MiB = 1 << 20;

memory kind_of(const std::string &name)
{
    for (memory kind : {memory::device, memory::pool, memory::vmm}) {
        if (name == name_of(kind)) {
            return kind;
        }
    }
    throw std::runtime_error("no such kind of memory: " + name);
}

// Device memory of one kind:
//   device  cuMemAlloc
//   pool    cuMemAllocAsync; the pool releases freed memory at once
//   vmm     handles, mapped into one reserved range of addresses
class allocator {
public:
    explicit allocator(const std::string &kind) : kind_(kind_of(kind))
    {
        if (kind_ == memory::vmm) {
            place_.emplace(size_t{1} << 30);
        }
    }
    ~allocator()
    {
        while (!blocks_.empty()) {
            release(blocks_.begin()->first);
        }
    }
    allocator(const allocator &)            = delete;
    allocator &operator=(const allocator &) = delete;

    uint8_t *allocate(size_t size)
    {
        if (kind_ == memory::vmm) {
            const auto found = released_.extract(size);
            return map(found ? found.mapped() - place_->at() : mapped_, size);
        }
        auto memory = std::make_unique<gpu::buffer>(size, kind_);
        uint8_t *at = memory->at();
        blocks_.emplace(at, block{size, nullptr, std::move(memory)});
        return at;
    }
    // Maps at this offset in the range; for vmm only.
    uint8_t *map(size_t offset, size_t size)
    {
        auto memory = std::make_unique<gpu::physical>(size);
        uint8_t *at = place_->at(offset);
        memory->map(place_->address(offset));
        blocks_.emplace(at, block{size, std::move(memory), nullptr});
        mapped_ = std::max(mapped_, offset + size);
        return at;
    }
    void release(uint8_t *at)
    {
        const auto found = blocks_.find(at);
        if (kind_ == memory::vmm) {
            found->second.memory->unmap(reinterpret_cast<CUdeviceptr>(at));
            released_[found->second.size] = at;
        }
        blocks_.erase(found);
        if (kind_ == memory::pool) {
            CUmemoryPool pool;
            GPU_CALL(cuDeviceGetDefaultMemPool, &pool, gpu::current());
            GPU_CALL(cuMemPoolTrimTo, pool, 0);
        }
    }

private:
    const memory kind_;
    std::optional<gpu::reservation> place_;
    size_t mapped_ = 0;                    // end of the used range
    std::map<size_t, uint8_t *> released_; // last one of each size
    struct block {
        size_t size;
        std::unique_ptr<gpu::physical> memory; // for vmm
        std::unique_ptr<gpu::buffer> buffer;   // for the other kinds
    };
    std::map<uint8_t *, block> blocks_;
};

// A trace of traces.awk at a tenth of its sizes: a segment of 20 MiB
// becomes 2 MiB, the smallest size that can be mapped. Every `keep`th use
// becomes a message.
class replayed {
public:
    replayed(run &in, const std::string &kind, size_t keep)
        : in_(in), memory_(kind), keep_(keep)
    {
    }

    void step(const std::string &what, uintptr_t address, size_t size)
    {
        if (what == "map") {
            base_ = std::min(base_, address);
            blocks_[address] =
                memory_.map(scaled(address - base_), scaled(size));
        } else if (what == "alloc") {
            blocks_[address] = memory_.allocate(scaled(size));
        } else if (what == "free") {
            memory_.release(blocks_.extract(address).mapped());
        } else {
            use(address, size);
        }
    }

private:
    static constexpr size_t scaled(size_t size) { return size / 10; }

    void use(uintptr_t address, size_t size)
    {
        if (uses_++ % keep_ != 0) {
            return;
        }
        const auto block = std::prev(blocks_.upper_bound(address));
        in_.message(block->second + scaled(address - block->first),
                    scaled(size));
    }

    run &in_;
    allocator memory_;
    const size_t keep_;
    size_t uses_    = 0;
    uintptr_t base_ = UINTPTR_MAX; // lowest mapped address of the trace
    std::map<uintptr_t, uint8_t *> blocks_; // by the trace's addresses
};

// Allocates blocks; both ranks send from and receive into each one.
std::vector<uint8_t *> use_new(run &in, allocator &memory, size_t count,
                               size_t size)
{
    std::vector<uint8_t *> all;

    for (size_t i = 0; i < count; ++i) {
        all.push_back(memory.allocate(size));
        in.message(all.back(), size / 2);
        in.message(all.back(), size / 2);
    }
    return all;
}

void release(allocator &memory, const std::vector<uint8_t *> &all)
{
    for (uint8_t *each : all) {
        memory.release(each);
    }
}

// Waits up to 4 s: a thread of the plug-in or of UCX may still deregister.
uint64_t still_pinned_bytes()
{
    for (int i = 0; i < 1000 && pinned_bytes() > 0; ++i) {
        usleep(4000);
    }
    return pinned_bytes();
}

} // namespace

void replay_trace(run &in, const arguments &how)
{
    std::ifstream file(how.at(0));
    std::string what;
    uintptr_t address = 0;
    size_t size = 0, steps = 0;

    replayed trace(in, how.at(1), how.size() > 2 ? std::stoul(how[2]) : 1);
    for (; file >> what >> address; ++steps) {
        if (what != "free") {
            file >> size;
        }
        trace.step(what, address, size);
    }
    if (steps == 0) {
        throw std::runtime_error("no trace: " + how.at(0));
    }
}

// UCX gets no call between the releases and the first count of pinned bytes.
void free_used(run &in, const arguments &how)
{
    allocator memory(how.at(0));
    const auto all = use_new(in, memory, 8, 4 * MiB);

    if (!in.dry()) {
        MPI_Barrier(MPI_COMM_WORLD);
        in.figure("pinned_before", pinned_bytes());
    }
    release(memory, all);
    in.figure("pinned_after", still_pinned_bytes());
    release(memory, use_new(in, memory, 1, 2 * MiB));
    in.figure("pinned_later", still_pinned_bytes());
}

void use_again(run &in, const arguments &how)
{
    allocator memory(how.at(0));

    for (int i = 0; i < 10; ++i) {
        release(memory, use_new(in, memory, 1, 4 * MiB));
    }
}

void in_turn(run &in, const arguments &how)
{
    allocator memory("device");
    const size_t size = std::stoul(how.at(1)) * MiB;
    const auto all    = use_new(in, memory, std::stoul(how.at(0)), size);

    for (size_t round = 1; round < std::stoul(how.at(2)); ++round) {
        for (uint8_t *each : all) {
            in.message(each, size / 2);
        }
    }
    release(memory, all);
}

// A range of VMM handles: messages over all of them, over each border, and then
// with a new handle in the middle.
void several_handles(run &in, const arguments &)
{
    constexpr size_t segment = 2 * MiB, count = 4;
    allocator memory("vmm");
    uint8_t *at[count];

    for (uint8_t *&each : at) {
        each = memory.allocate(segment);
    }
    for (int turn = 0; turn < 2; ++turn) {
        for (int i = 0; i < 4; ++i) {
            in.message(at[0] + 1, count * segment - 2);
        }
        for (size_t i = 1; i < count; ++i) {
            in.message(at[i] - MiB / 2, MiB);
        }
        memory.release(at[1]);
        memory.allocate(segment); // at the same address
    }
}

} // namespace ucx_ib_dmabuf::test
