// SPDX-License-Identifier: BSD-3-Clause
//
// Blocking point-to-point messages: every pair of memory kinds, odd sizes and
// odd offsets.
#include "exchange.h"
#include <algorithm>

namespace ucx_ib_dmabuf::test {
namespace {

// A case that sends messages of these lengths at these offsets, from rank 0 to
// rank 1 and back.
auto exchanges(const std::vector<size_t> &lengths,
               const std::vector<size_t> &offsets)
{
    return [=](job &in, memory first, memory second) {
        const memory kind = mine_of(in, first, second);
        buffer mine(kind, std::ranges::max(lengths) + 4096);

        for (size_t length : lengths) {
            for (size_t offset : offsets) {
                if (in.rank <= 1) {
                    exchange_at(in, mine.at(offset), kind, length);
                }
            }
        }
    };
}

// Many pieces of one allocation, at offsets that the ranks draw alike.
void run_pieces(job &in, memory first, memory second)
{
    constexpr size_t length = 24 << 20;
    const memory kind       = mine_of(in, first, second);
    buffer mine(kind, length);

    for (int i = 0; i < 24; ++i) {
        const size_t size   = rendezvous + in.random() % (512 << 10);
        const size_t offset = in.random() % (length - size);
        if (in.rank <= 1) {
            exchange_at(in, mine.at(offset), kind, size);
        }
    }
}

} // namespace

void add_messages(std::vector<test_case> *cases)
{
    const memory host = memory::host, device = memory::device;
    const auto add = [cases](const char *group, const std::string &name,
                             const auto &run, memory first, memory second,
                             staging expected = staging::follows) {
        cases->push_back({group,
                          name + ", " + name_of(first) + " to " +
                              name_of(second) + " and back",
                          run, first, second, expected});
    };
    // UCX may copy small messages; they only have to arrive.
    const auto small = exchanges({0, 1, 8, 1000, 4097, 8191}, {0, 13});
    const auto large = exchanges({rendezvous, rendezvous + 1, 262147, 1 << 20,
                                  (1 << 20) + 3, (4 << 20) - 1},
                                 {0, 4093});
    // UCX assigns the pieces of a message to its rails in turn, and shortens
    // the first piece if the buffer is not aligned to 512 bytes. Then one rail
    // sends the message's head and tail, another its middle.
    const auto odd =
        exchanges({1 << 20, (1 << 20) - 255}, {0, 256, 1, 767, 768});
    // For tests of other things than messages.
    const auto few = exchanges({8, 4097, (2 << 20) - 3}, {1});

    add("host", "small messages", small, host, host, staging::never);
    add("host", "large messages", large, host, host, staging::never);
    for (memory first : {host, device}) {
        for (memory second : {host, device}) {
            add("messages", "small messages", small, first, second,
                staging::any);
            add("messages", "large messages", large, first, second,
                first == host && second == host ? staging::never
                                                : staging::follows);
        }
    }
    add("messages", "pieces of one large allocation", run_pieces, device,
        device);
    for (memory first : {device, host}) {
        add("rails", "messages at odd places", odd, first, device);
        add("brief", "messages", few, first, device);
    }
    const auto add_kind = [&](const char *group, memory kind,
                              staging expected) {
        add(group, "large messages", large, kind, kind, expected);
    };
    add_kind("vmm", memory::vmm, staging::follows);
    add_kind("pools", memory::pool, staging::follows);
    for (memory kind : {memory::variable, memory::opened, memory::imported,
                        memory::incapable}) {
        // The driver never exports the first two.
        const char *group = (kind <= memory::opened) ? "variables" : "others";
        add(group, "small messages", small, kind, kind, staging::any);
        add_kind(group, kind, staging::any);
    }
    // These belong to the host, too, and UCX may move them by any means.
    add_kind("kinds", memory::managed, staging::any);
    add_kind("kinds", memory::pinned, staging::any);
}

} // namespace ucx_ib_dmabuf::test
