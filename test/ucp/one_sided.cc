// SPDX-License-Identifier: BSD-3-Clause
//
// Puts, gets, fences and atomic operations of one context on memory of another,
// by UCP's own API. Each step compares all bytes: those of the allocations on
// both sides, and the results. Prints "ok - NAME" or "not ok - NAME: REASON".
// usage: one_sided none|any SEED GROUP...
// The first argument says whether large puts and gets may be copied.
#include "peers.h"
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace ucx_ib_dmabuf::test {
namespace {

// The script forbids UCX to copy from this size on.
constexpr size_t large = 64 << 10;

struct job {
    initiator &by;
    std::mt19937_64 &random;
    bool may_copy;
};

// Returns a random number below `end`.
size_t below(job &in, size_t end)
{
    return in.random() % end;
}

// Memory of the initiator with random bytes, and its expected bytes.
struct local_memory {
    local_memory(job &in, memory kind, size_t length)
        : buffer(length, kind), expected(length)
    {
        std::generate(expected.begin(), expected.end(),
                      [&] { return static_cast<uint8_t>(in.random()); });
        write_memory(kind, buffer.at(), expected);
    }
    void compare(const char *after) const
    {
        const std::string wrong = difference(
            read_memory(buffer.kind(), buffer.at(), buffer.size()), expected);
        if (!wrong.empty()) {
            throw std::runtime_error(std::string(after) +
                                     ", its own memory: " + wrong);
        }
    }

    gpu::buffer buffer;
    std::vector<uint8_t> expected;
};

// A range in both memories.
struct piece {
    size_t local;
    size_t remote;
    size_t length;
};

piece draw_piece(job &in, const local_memory &mine, const remote_memory &theirs,
                 size_t length)
{
    return {below(in, mine.expected.size() - length + 1),
            below(in, theirs.length() - length + 1), length};
}

ucs_status_ptr_t put(job &in, local_memory &mine, remote_memory &theirs,
                     const piece &what)
{
    const ucp_request_param_t params = {};

    memcpy(theirs.expected(what.remote), &mine.expected[what.local],
           what.length);
    return ucp_put_nbx(in.by.ep(), mine.buffer.at(what.local), what.length,
                       theirs.address(what.remote), theirs.key(), &params);
}

ucs_status_ptr_t get(job &in, local_memory &mine, remote_memory &theirs,
                     const piece &what)
{
    const ucp_request_param_t params = {};

    memcpy(&mine.expected[what.local], theirs.expected(what.remote),
           what.length);
    return ucp_get_nbx(in.by.ep(), mine.buffer.at(what.local), what.length,
                       theirs.address(what.remote), theirs.key(), &params);
}

constexpr size_t sizes[] = {1,     8,         13,     1000,      8191,
                            large, large + 1, 262147, (1 << 20), (3 << 20) + 5};
constexpr size_t room    = 4 << 20;

void run_puts_and_gets(job &in, memory first, memory second)
{
    local_memory mine(in, first, room);
    remote_memory theirs(in.by, in.random, second, room, 4096 + 13);

    for (const size_t length : sizes) {
        const piece there     = draw_piece(in, mine, theirs, length);
        const piece back      = draw_piece(in, mine, theirs, length);
        const uint64_t before = gpu::copied_bytes();

        in.by.wait(put(in, mine, theirs, there), "ucp_put_nbx");
        in.by.flush_ep();
        in.by.wait(get(in, mine, theirs, back), "ucp_get_nbx");
        const uint64_t copied = gpu::copied_bytes() - before;
        const auto after      = "a put and a get of " + std::to_string(length);
        theirs.compare(after.c_str());
        mine.compare(after.c_str());
        if ((length >= large) && (copied != 0) && !in.may_copy) {
            throw std::runtime_error(after +
                                     " bytes: " + std::to_string(copied) +
                                     " bytes were copied");
        }
    }
}

// Many concurrent operations on ranges that do not overlap; one flush for all.
void run_many(job &in, memory first, memory second)
{
    constexpr size_t count = 32, each = room / count;
    local_memory mine(in, first, room);
    remote_memory theirs(in.by, in.random, second, room, 64);
    std::vector<ucs_status_ptr_t> requests;

    for (size_t i = 0; i < count; ++i) {
        const size_t length = 1 + below(in, (i % 4 != 0) ? 4096 : each);
        const size_t place  = i * each + below(in, each - length + 1);
        const piece what    = {place, place, length};
        requests.push_back((i % 2 != 0) ? put(in, mine, theirs, what)
                                        : get(in, mine, theirs, what));
    }
    in.by.flush_worker();
    for (ucs_status_ptr_t one : requests) {
        in.by.wait(one, "a put or a get");
    }
    theirs.compare("many at a time");
    mine.compare("many at a time");
}

// Long and short puts to overlapping places: a put after a fence overwrites
// those before it.
void run_fences(job &in, memory first, memory second)
{
    local_memory mine(in, first, room);
    remote_memory theirs(in.by, in.random, second, room, 64);
    std::vector<ucs_status_ptr_t> requests;

    for (int i = 0; i < 24; ++i) {
        const size_t length = sizes[below(in, std::size(sizes))];
        piece what          = draw_piece(in, mine, theirs, length);
        what.remote         = below(in, std::min(what.remote + 1, large));
        requests.push_back(put(in, mine, theirs, what));
        check(ucp_worker_fence(in.by.worker()), "ucp_worker_fence");
    }
    in.by.flush_worker();
    for (ucs_status_ptr_t one : requests) {
        in.by.wait(one, "ucp_put_nbx");
    }
    theirs.compare("puts with fences between");
}

template <class word>
word apply(ucp_atomic_op_t operation, word old, word operand, word swapped)
{
    switch (operation) {
    case UCP_ATOMIC_OP_ADD:
        return old + operand;
    case UCP_ATOMIC_OP_SWAP:
        return operand;
    case UCP_ATOMIC_OP_CSWAP:
        return (old == operand) ? swapped : old;
    case UCP_ATOMIC_OP_AND:
        return old & operand;
    case UCP_ATOMIC_OP_OR:
        return old | operand;
    case UCP_ATOMIC_OP_XOR:
        return old ^ operand;
    default:
        throw std::logic_error("no such operation");
    }
}

// Runs one operation on a word of theirs. A result is stored at the beginning
// of mine.
template <class word>
void run_atomic(job &in, local_memory &mine, remote_memory &theirs,
                ucp_atomic_op_t operation, bool fetches)
{
    const size_t at = sizeof(word) * below(in, theirs.length() / sizeof(word));
    word operand    = static_cast<word>(in.random());
    const word swapped         = static_cast<word>(in.random());
    ucp_request_param_t params = {};
    word old                   = 0;

    memcpy(&old, theirs.expected(at), sizeof(old));
    if ((operation == UCP_ATOMIC_OP_CSWAP) && (below(in, 2) != 0)) {
        operand = old;
    }
    params.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype     = ucp_dt_make_contig(sizeof(word));
    if (fetches) {
        params.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        params.reply_buffer = mine.buffer.pointer();
        memcpy(mine.expected.data(), &swapped, sizeof(swapped));
        write_memory(mine.buffer.kind(), mine.buffer.at(), mine.expected);
        memcpy(mine.expected.data(), &old, sizeof(old));
    }
    in.by.wait(ucp_atomic_op_nbx(in.by.ep(), operation, &operand, 1,
                                 theirs.address(at), theirs.key(), &params),
               "ucp_atomic_op_nbx");
    in.by.flush_ep();
    const word now = apply(operation, old, operand, swapped);
    memcpy(theirs.expected(at), &now, sizeof(now));
}

template <class word>
void run_atomics(job &in, memory first, memory second)
{
    constexpr std::array operations = {UCP_ATOMIC_OP_ADD,  UCP_ATOMIC_OP_AND,
                                       UCP_ATOMIC_OP_OR,   UCP_ATOMIC_OP_XOR,
                                       UCP_ATOMIC_OP_SWAP, UCP_ATOMIC_OP_CSWAP};
    local_memory mine(in, first, 64);
    remote_memory theirs(in.by, in.random, second, 1000 * sizeof(word), 64);

    for (int i = 0; i < 4; ++i) {
        for (size_t j = 0; j < operations.size(); ++j) {
            if (j < 4) {
                run_atomic<word>(in, mine, theirs, operations[j], false);
            }
            run_atomic<word>(in, mine, theirs, operations[j], true);
            const std::string after =
                "atomic operation " + std::to_string(operations[j]);
            mine.compare(after.c_str());
            theirs.compare(after.c_str());
        }
    }
}

// A put, a fence, and then additions that return no results.
void run_counting(job &in, memory, memory second)
{
    local_memory zero(in, memory::host, sizeof(uint64_t));
    remote_memory theirs(in.by, in.random, second, 64, 64);
    ucp_request_param_t params = {};
    uint64_t sum               = 0;

    params.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype     = ucp_dt_make_contig(sizeof(sum));
    in.by.wait(put(in, zero, theirs, {0, 0, sizeof(sum)}), "ucp_put_nbx");
    check(ucp_worker_fence(in.by.worker()), "ucp_worker_fence");
    memcpy(&sum, zero.expected.data(), sizeof(sum));
    for (uint64_t i = 1; i <= 100; ++i) {
        in.by.wait(ucp_atomic_op_nbx(in.by.ep(), UCP_ATOMIC_OP_ADD, &i, 1,
                                     theirs.address(0), theirs.key(), &params),
                   "ucp_atomic_op_nbx");
        sum += i;
    }
    in.by.flush_worker();
    memcpy(theirs.expected(0), &sum, sizeof(sum));
    theirs.compare("additions");
}

struct test_case {
    const char *group;
    const char *name;
    void (*run)(job &, memory, memory);
    memory first, second;
};

const test_case cases[] = {
    {"host", "puts and gets", run_puts_and_gets, memory::host, memory::host},
    {"rma", "puts and gets", run_puts_and_gets, memory::device, memory::device},
    {"rma", "puts and gets", run_puts_and_gets, memory::host, memory::device},
    {"rma", "puts and gets", run_puts_and_gets, memory::device, memory::host},
    {"rma", "puts and gets", run_puts_and_gets, memory::vmm, memory::vmm},
    {"rma", "many at a time", run_many, memory::device, memory::device},
    {"rma", "many at a time", run_many, memory::host, memory::vmm},
    {"kinds", "puts and gets", run_puts_and_gets, memory::pool, memory::pool},
    {"kinds", "puts and gets", run_puts_and_gets, memory::managed,
     memory::managed},
    {"kinds", "puts and gets", run_puts_and_gets, memory::pinned,
     memory::pinned},
    {"host-fence", "fences", run_fences, memory::host, memory::host},
    {"fence", "fences", run_fences, memory::device, memory::device},
    {"fence", "fences", run_fences, memory::host, memory::device},
    {"host-atomic", "8 bytes", run_atomics<uint64_t>, memory::host,
     memory::host},
    {"host-atomic", "4 bytes", run_atomics<uint32_t>, memory::host,
     memory::host},
    {"host-atomic", "additions", run_counting, memory::host, memory::host},
    {"atomic", "8 bytes", run_atomics<uint64_t>, memory::host, memory::device},
    {"atomic", "4 bytes", run_atomics<uint32_t>, memory::host, memory::device},
    {"atomic", "8 bytes", run_atomics<uint64_t>, memory::host, memory::vmm},
    {"atomic", "8 bytes", run_atomics<uint64_t>, memory::host, memory::managed},
    {"atomic", "additions", run_counting, memory::host, memory::device},
    {"atomic-results", "8 bytes", run_atomics<uint64_t>, memory::device,
     memory::host},
    {"atomic-results", "8 bytes", run_atomics<uint64_t>, memory::device,
     memory::vmm},
    {"atomic-results", "4 bytes", run_atomics<uint32_t>, memory::device,
     memory::pool},
};

void run_case(job &in, const test_case &one)
{
    const std::string name = std::string(one.group) + ": " + one.name + ", " +
                             gpu::name_of(one.first) + " to " +
                             gpu::name_of(one.second);
    try {
        one.run(in, one.first, one.second);
        printf("ok - %s\n", name.c_str());
    } catch (const std::exception &failure) {
        printf("not ok - %s: %s\n", name.c_str(), failure.what());
    }
    fflush(stdout);
}

int main(std::span<char *> arguments)
{
    if (arguments.size() < 4) {
        fprintf(stderr, "usage: one_sided none|any SEED GROUP...\n");
        return 2;
    }
    std::mt19937_64 random(std::stoull(arguments[2]));
    initiator by;
    job in = {by, random, strcmp(arguments[1], "none") != 0};

    for (const char *group : arguments.subspan(3)) {
        for (const test_case &one : cases) {
            if (strcmp(one.group, group) == 0) {
                run_case(in, one);
            }
        }
    }
    printf("ok - it came to its end\n");
    return 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
{
    try {
        return ucx_ib_dmabuf::test::main(
            std::span(argv, static_cast<size_t>(argc)));
    } catch (const std::exception &failure) {
        fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
