// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers at the edges of their memory: adjacent allocations, the last bytes of
// an allocation, of mapped memory and of reserved addresses, and empty buffers.
#include "job.h"

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t page    = 4096;
constexpr size_t segment = 2 << 20; // a handle's size is a multiple of it

// Adjacent allocations of this size, some of which share a page of the GPU.
// Every second one is sent, which must leave the others unchanged.
void run_neighbours(job &in, memory kind, memory)
{
    for (size_t length : {rendezvous + 512, 3 * rendezvous, segment}) {
        std::vector<std::unique_ptr<buffer>> row;
        bystanders others(in);

        for (int i = 0; i < 7; ++i) {
            row.push_back(std::make_unique<buffer>(kind, length));
        }
        for (size_t i = 0; i < row.size(); i += 2) {
            others.add(row[i]->at(), kind, length);
        }
        for (size_t i = 1; i < row.size(); i += 2) {
            in.exchange(row[i]->at(), kind, length);
            in.exchange(row[i]->at(1), kind, length - 1);
            others.expect_unchanged("a neighbour");
        }
        // New memory in place of a freed allocation, between two that remain.
        row[1].reset();
        row[1] = std::make_unique<buffer>(kind, length);
        in.exchange(row[1]->at(), kind, length);
        others.expect_unchanged("a new neighbour");
    }
}

// Sends the first and the last bytes, in several lengths.
void exchange_ends(job &in, uint8_t *data, memory kind, size_t length)
{
    for (size_t count :
         {size_t{1}, size_t{2}, size_t{63}, page - 1, page + 1, rendezvous - 1,
          rendezvous, rendezvous + 1, 4 * rendezvous + 3}) {
        in.exchange(data + length - count, kind, count);
        in.exchange(data, kind, count);
    }
    in.exchange(data, kind, length);
}

void run_ends(job &in, memory first, memory second)
{
    constexpr size_t length = (1 << 20) + 13;
    const memory kind       = in.mine_of(first, second);
    buffer mine(kind, length);

    exchange_ends(in, mine.at(), kind, length);
}

// Empty messages at a valid address, behind the last byte, and at nullptr.
void run_empty(job &in, memory first, memory second)
{
    const memory kind = in.mine_of(first, second);
    buffer mine(kind, rendezvous);

    for (uint8_t *at : {mine.at(), mine.at(1), mine.at(rendezvous - 1),
                        mine.at(rendezvous), static_cast<uint8_t *>(nullptr)}) {
        in.exchange(at, kind, 0);
    }
    in.exchange(mine.at(), kind, 1);
}

// Memory before unmapped addresses: at the end of a reservation of 4 GiB, and
// on both sides of a hole.
void run_last_addresses(job &in, memory, memory)
{
    const memory kind = memory::vmm;
    const gpu::reservation place(size_t{4} << 30);
    const size_t last               = place.size() - segment;
    const gpu::physical memories[3] = {
        gpu::physical(segment), gpu::physical(segment), gpu::physical(segment)};
    const size_t at[] = {0, 2 * segment, last};

    for (size_t i = 0; i < 3; ++i) {
        memories[i].map(place.address() + at[i]);
    }
    for (size_t offset : at) {
        bystanders others(in);
        for (size_t other : at) {
            if (other != offset) {
                others.add(place.at(other), kind, segment);
            }
        }
        exchange_ends(in, place.at(offset), kind, segment);
        others.expect_unchanged("beyond a hole");
    }
    for (size_t i = 0; i < 3; ++i) {
        memories[i].unmap(place.address() + at[i]);
    }
}

// A range of several handles. Their order and number change between messages.
void run_remapped(job &in, memory, memory)
{
    const memory kind = memory::vmm;
    const gpu::reservation place(4 * segment);
    const gpu::physical one(segment), two(segment), three(segment),
        four(segment);
    const gpu::physical *now[] = {&one, &two, &three, nullptr};
    const auto length          = [&now] { return (now[3] ? 4 : 3) * segment; };
    const auto put_at          = [&](size_t i, const gpu::physical *next) {
        if (now[i]) {
            now[i]->unmap(place.address() + i * segment);
        }
        now[i] = next;
        if (next) {
            next->map(place.address() + i * segment);
        }
    };
    // Within a segment, over each border, and the whole range.
    const auto exchange = [&] {
        for (size_t border = segment; border < length(); border += segment) {
            in.exchange(place.at(border - rendezvous), kind, rendezvous);
            in.exchange(place.at(border), kind, rendezvous);
            in.exchange(place.at(border - 13), kind, rendezvous);
            in.exchange(place.at(border - rendezvous), kind, 2 * rendezvous);
        }
        in.exchange(place.at(), kind, length());
    };

    for (size_t i = 0; i < 3; ++i) {
        now[i]->map(place.address() + i * segment);
    }
    exchange();
    put_at(3, &four); // the range grows
    exchange();
    put_at(1, nullptr); // the middle gets another handle's memory
    put_at(3, nullptr);
    put_at(1, &four);
    exchange();
    put_at(0, nullptr); // two handles change places
    put_at(2, &one);
    put_at(0, &three);
    exchange();
    put_at(3, &two);
    exchange();
    for (size_t i = 0; i < 4; ++i) {
        put_at(i, nullptr);
    }
}

} // namespace

void add_edges(case_list &cases)
{
    const memory host = memory::host, device = memory::device;

    cases.add("edges", "allocations side by side", run_neighbours);
    for (memory first : {device, host}) {
        cases.add("edges", "the ends of an allocation", run_ends, first,
                  device);
        cases.add("edges", "no bytes and one", run_empty, first, device,
                  staging::any);
    }
    cases.add("segments", "the ends of mapped memory", run_last_addresses,
              memory::vmm);
    cases.add("segments", "handles that change places", run_remapped,
              memory::vmm);
}

} // namespace ucx_ib_dmabuf::test
