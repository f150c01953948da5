// SPDX-License-Identifier: BSD-3-Clause
//
// Puts, gets, fences and atomic operations of one context on memory of another.
// Each step compares all bytes: those of the allocations on both sides, and the
// results.
#include "peers.h"
#include <algorithm>
#include <array>
#include <cstring>

namespace ucx_ib_dmabuf::test {
namespace {

// The script forbids UCX to copy from this size on.
constexpr size_t large = 64 << 10;

// Returns a random number below `end`.
size_t below(job &in, size_t end)
{
    return in.random() % end;
}

// A range in both memories.
struct piece {
    size_t local;
    size_t remote;
    size_t length;
};

piece draw_piece(job &in, const known_memory &mine, const remote_memory &theirs,
                 size_t length)
{
    return {below(in, mine.length() - length + 1),
            below(in, theirs.length() - length + 1), length};
}

// Starts the operation, and expects its bytes.
ucs_status_ptr_t start(job &in, operation *run, known_memory &mine,
                       remote_memory &theirs, const piece &what)
{
    uint8_t *here  = mine.expected(what.local);
    uint8_t *there = theirs.expected(what.remote);

    std::memcpy((run == put) ? there : here, (run == put) ? here : there,
                what.length);
    return run(in.by(), mine.at(what.local), what.length,
               theirs.address(what.remote), theirs.key());
}

constexpr size_t sizes[] = {1,     8,         13,     1000,      8191,
                            large, large + 1, 262147, (1 << 20), (3 << 20) + 5};
constexpr size_t room    = 4 << 20;

void run_puts_and_gets(job &in, memory first, memory second)
{
    known_memory mine(in.random, first, room);
    remote_memory theirs(in.by(), in.random, second, room, 4096 + 13);

    for (const size_t length : sizes) {
        const piece there     = draw_piece(in, mine, theirs, length);
        const piece back      = draw_piece(in, mine, theirs, length);
        const uint64_t before = gpu::copied_bytes();

        in.by().wait(start(in, put, mine, theirs, there), "ucp_put_nbx");
        in.by().flush_ep();
        in.by().wait(start(in, get, mine, theirs, back), "ucp_get_nbx");
        const uint64_t copied = gpu::copied_bytes() - before;
        const auto after      = "a put and a get of " + std::to_string(length);
        theirs.compare(after);
        mine.compare(after);
        expect((length < large) || (copied == 0) || in.may_copy,
               after + " bytes: " + std::to_string(copied) +
                   " bytes were copied");
    }
}

// Many concurrent operations on ranges that do not overlap; one flush for all.
void run_many(job &in, memory first, memory second)
{
    constexpr size_t count = 32, each = room / count;
    known_memory mine(in.random, first, room);
    remote_memory theirs(in.by(), in.random, second, room, 64);
    std::vector<ucs_status_ptr_t> requests;

    for (size_t i = 0; i < count; ++i) {
        const size_t length = 1 + below(in, (i % 4 != 0) ? 4096 : each);
        const size_t place  = i * each + below(in, each - length + 1);
        const piece what    = {place, place, length};
        requests.push_back(
            start(in, (i % 2 != 0) ? put : get, mine, theirs, what));
    }
    in.by().flush_worker();
    for (ucs_status_ptr_t one : requests) {
        in.by().wait(one, "a put or a get");
    }
    theirs.compare("many at a time");
    mine.compare("many at a time");
}

// Long and short puts to overlapping places: a put after a fence overwrites
// those before it.
void run_fences(job &in, memory first, memory second)
{
    known_memory mine(in.random, first, room);
    remote_memory theirs(in.by(), in.random, second, room, 64);
    std::vector<ucs_status_ptr_t> requests;

    for (int i = 0; i < 24; ++i) {
        const size_t length = sizes[below(in, std::size(sizes))];
        piece what          = draw_piece(in, mine, theirs, length);
        what.remote         = below(in, std::min(what.remote + 1, large));
        requests.push_back(start(in, put, mine, theirs, what));
        check(ucp_worker_fence(in.by().worker()), "ucp_worker_fence");
    }
    in.by().flush_worker();
    for (ucs_status_ptr_t one : requests) {
        in.by().wait(one, "ucp_put_nbx");
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
void run_atomic(job &in, known_memory &mine, remote_memory &theirs,
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
        params.reply_buffer = mine.at();
        memcpy(mine.expected(), &swapped, sizeof(swapped));
        mine.write();
        memcpy(mine.expected(), &old, sizeof(old));
    }
    in.by().wait(ucp_atomic_op_nbx(in.by().ep(), operation, &operand, 1,
                                   theirs.address(at), theirs.key(), &params),
                 "ucp_atomic_op_nbx");
    in.by().flush_ep();
    const word now = apply(operation, old, operand, swapped);
    memcpy(theirs.expected(at), &now, sizeof(now));
}

template <class word>
void run_atomics(job &in, memory first, memory second)
{
    constexpr std::array operations = {UCP_ATOMIC_OP_ADD,  UCP_ATOMIC_OP_AND,
                                       UCP_ATOMIC_OP_OR,   UCP_ATOMIC_OP_XOR,
                                       UCP_ATOMIC_OP_SWAP, UCP_ATOMIC_OP_CSWAP};
    known_memory mine(in.random, first, 64);
    remote_memory theirs(in.by(), in.random, second, 1000 * sizeof(word), 64);

    for (int i = 0; i < 4; ++i) {
        for (size_t j = 0; j < operations.size(); ++j) {
            if (j < 4) {
                run_atomic<word>(in, mine, theirs, operations[j], false);
            }
            run_atomic<word>(in, mine, theirs, operations[j], true);
            const std::string after =
                "atomic operation " + std::to_string(operations[j]);
            mine.compare(after);
            theirs.compare(after);
        }
    }
}

// A put, a fence, and then additions that return no results.
void run_counting(job &in, memory, memory second)
{
    known_memory first(in.random, memory::host, sizeof(uint64_t));
    remote_memory theirs(in.by(), in.random, second, 64, 64);
    ucp_request_param_t params = {};
    uint64_t sum               = 0;

    params.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
    params.datatype     = ucp_dt_make_contig(sizeof(sum));
    in.by().wait(start(in, put, first, theirs, {0, 0, sizeof(sum)}),
                 "ucp_put_nbx");
    check(ucp_worker_fence(in.by().worker()), "ucp_worker_fence");
    memcpy(&sum, first.expected(), sizeof(sum));
    for (uint64_t i = 1; i <= 100; ++i) {
        in.by().wait(ucp_atomic_op_nbx(in.by().ep(), UCP_ATOMIC_OP_ADD, &i, 1,
                                       theirs.address(0), theirs.key(),
                                       &params),
                     "ucp_atomic_op_nbx");
        sum += i;
    }
    in.by().flush_worker();
    memcpy(theirs.expected(0), &sum, sizeof(sum));
    theirs.compare("additions");
}

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

} // namespace

std::span<const test_case> one_sided_cases()
{
    return cases;
}

} // namespace ucx_ib_dmabuf::test
