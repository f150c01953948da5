// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking point-to-point messages: every pair of memory kinds, odd sizes and
// odd offsets.
#include "exchange.h"

namespace ucx_ib_dmabuf::test {
namespace {

// Bytes beyond the largest message, for an offset.
constexpr size_t room = 4096;

const size_t small_sizes[] = {0, 1, 8, 1000, 4097, 8191};
const size_t large_sizes[] = {rendezvous, rendezvous + 1, 262147,
                              1 << 20,    (1 << 20) + 3,  (4 << 20) - 1};

// Sends a message from rank 0 to rank 1, and one back. Rank 0 has the first
// kind of memory, rank 1 the second.
void exchange(job &in, const buffer &mine, size_t offset, size_t length)
{
    exchange_at(in, mine.at(offset), mine.kind(), length);
}

memory mine_of(const job &in, memory first, memory second)
{
    return in.rank == 0 ? first : second;
}

// UCX may copy small messages; they only have to arrive.
void run_small(job &in, memory first, memory second)
{
    buffer mine(mine_of(in, first, second), 8192 + room);

    if (in.rank > 1) {
        return;
    }
    for (size_t length : small_sizes) {
        for (size_t offset : {size_t{0}, size_t{13}}) {
            exchange(in, mine, offset, length);
        }
    }
}

void run_large(job &in, memory first, memory second)
{
    buffer mine(mine_of(in, first, second), (4 << 20) + room);

    if (in.rank > 1) {
        return;
    }
    for (size_t length : large_sizes) {
        for (size_t offset : {size_t{0}, size_t{4093}}) {
            exchange(in, mine, offset, length);
        }
    }
}

// UCX assigns the pieces of a message to its rails in turn, and shortens the
// first piece if the buffer is not aligned to 512 bytes. Then one rail sends
// the message's head and tail, another its middle.
void run_offsets(job &in, memory first, memory second)
{
    constexpr size_t length = 1 << 20;
    buffer mine(mine_of(in, first, second), length + room);

    if (in.rank > 1) {
        return;
    }
    for (size_t offset : {0, 256, 1, 767, 768}) {
        exchange(in, mine, offset, length);
        exchange(in, mine, offset, length - 255);
    }
}

// A few messages, for tests of other things than messages.
void run_brief(job &in, memory first, memory second)
{
    buffer mine(mine_of(in, first, second), (2 << 20) + room);

    if (in.rank > 1) {
        return;
    }
    for (size_t length : {size_t{8}, size_t{4097}, (size_t{2} << 20) - 3}) {
        exchange(in, mine, 1, length);
    }
}

// Many pieces of one allocation, at offsets that the ranks draw alike.
void run_pieces(job &in, memory first, memory second)
{
    constexpr size_t length = 24 << 20;
    buffer mine(mine_of(in, first, second), length);

    for (int i = 0; i < 24; ++i) {
        const size_t size   = rendezvous + in.random() % (512 << 10);
        const size_t offset = in.random() % (length - size);
        if (in.rank <= 1) {
            exchange(in, mine, offset, size);
        }
    }
}

void add_pair(std::vector<test_case> *cases, memory first, memory second,
              staging expected)
{
    const std::string pair =
        std::string(name_of(first)) + " to " + name_of(second);

    cases->push_back({"messages", "small messages, " + pair + " and back",
                      run_small, first, second, staging::any});
    cases->push_back({"messages", "large messages, " + pair + " and back",
                      run_large, first, second, expected});
}

} // namespace

void add_messages(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;

    cases->push_back({"host", "small messages between host memory", run_small,
                      host, host, staging::never});
    cases->push_back({"host", "large messages between host memory", run_large,
                      host, host, staging::never});
    add_pair(cases, host, host, staging::never);
    add_pair(cases, host, device, staging::follows);
    add_pair(cases, device, host, staging::follows);
    add_pair(cases, device, device, staging::follows);
    cases->push_back({"rails", "messages at odd places, device to device",
                      run_offsets, device, device, staging::follows});
    cases->push_back({"rails",
                      "messages at odd places, host to device and back",
                      run_offsets, host, device, staging::follows});
    cases->push_back({"brief", "messages from device to device", run_brief,
                      device, device, staging::follows});
    cases->push_back({"brief", "messages from host to device and back",
                      run_brief, host, device, staging::follows});
    cases->push_back({"messages", "pieces of one large allocation", run_pieces,
                      device, device, staging::follows});
    const auto add_kind = [cases](const char *group, memory kind,
                                  staging expected) {
        cases->push_back(
            {group, std::string("large messages, ") + name_of(kind) + " memory",
             run_large, kind, kind, expected});
    };
    add_kind("vmm", memory::vmm, staging::follows);
    add_kind("pools", memory::pool, staging::follows);
    for (memory kind : {memory::variable, memory::opened, memory::imported,
                        memory::incapable}) {
        // The driver never exports the first two.
        const char *group = (kind <= memory::opened) ? "variables" : "others";
        cases->push_back({group,
                          std::string("small messages, ") + name_of(kind),
                          run_small, kind, kind, staging::any});
        add_kind(group, kind, staging::any);
    }
    // These belong to the host, too, and UCX may move them by any means.
    add_kind("kinds", memory::managed, staging::any);
    add_kind("kinds", memory::pinned, staging::any);
}

} // namespace ucx_ib_dmabuf::test
