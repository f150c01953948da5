// SPDX-License-Identifier: BSD-3-Clause
//
// The NIC stops reaching GPU memory that is still allocated: its exporter
// revokes all registrations, access fails on the way, or new memory replaces a
// part of it. The first operation afterwards fails with UCX's error. On a new
// endpoint, operations work, or fail before they send anything, as UCX can no
// longer stage copies for a broken path. And what releases of memory cost while
// UCP is not called.
#include "peers.h"
#include <algorithm>
#include <common/nic.h>
#include <fstream>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

// Large enough for a rendezvous without copies.
constexpr size_t length = 1 << 20;

// An initiator, its GPU memory, and what it does with that. The other end uses
// host memory, whose registration is not of a dma-buf.
class user {
public:
    user(job &in, initiator &by, operation *run, memory kind)
        : in_(in), by_(by), run_(run), mine_(in.random, kind, length)
    {
    }

    // Runs the operation and checks that both sides have the same bytes.
    void succeed()
    {
        remote_memory theirs(by_, in_.random, memory::host, length, 64);

        check(status_with(theirs), "the operation");
        if (run_ == put) {
            std::copy_n(mine_.expected(), length, theirs.expected());
        } else {
            std::copy_n(theirs.expected(), length, mine_.expected());
        }
        theirs.compare("the operation");
        mine_.compare("the operation");
    }
    void fail(std::initializer_list<ucs_status_t> with)
    {
        remote_memory theirs(by_, in_.random, memory::host, length, 64);
        const ucs_status_t status = status_with(theirs);

        expect(std::ranges::count(with, status) != 0,
               std::string("what does not reach the memory ended with ") +
                   ucs_status_string(status));
    }

private:
    // Waits until the bytes have arrived.
    ucs_status_t status_with(const remote_memory &theirs)
    {
        try {
            by_.wait(
                run_(by_, mine_.at(), length, theirs.address(), theirs.key()),
                "");
            by_.flush_ep();
            return UCS_OK;
        } catch (const failure &failed) {
            return failed.status();
        }
    }

    job &in_;
    initiator &by_;
    operation *const run_;
    known_memory mine_;
};

// Makes the lab's kernel refuse access ("fail") or allow it ("").
void set_lie(const char *what)
{
    std::ofstream file("/sys/module/rdma_rxe/parameters/lie");
    file << what << std::endl;
    expect(file.good(), "the lab does not lie");
}

enum class trouble {
    revoked, // the registrations
    passing, // access fails for a while
    lasting,
};

void fail_and_go_on(job &in, initiator &by, operation *run, memory kind,
                    trouble what)
{
    user one(in, by, run, kind);

    one.succeed();
    const uint64_t before = nic::counters().registrations;
    one.succeed();
    expect(nic::counters().registrations == before,
           "what is registered is not used again");
    if (what == trouble::revoked) {
        expect(nic::revoke() > 0, "nothing was revoked");
    } else {
        set_lie("fail");
    }
    // UCX may first report an operation that was queued behind the failed one.
    one.fail({UCS_ERR_IO_ERROR, UCS_ERR_CANCELED});
    if (what == trouble::passing) {
        set_lie("");
    }
    by.connect_anew();
    if (what == trouble::lasting) {
        one.fail({UCS_ERR_UNSUPPORTED});
        return;
    }
    one.succeed();
    const uint64_t anew = nic::counters().registrations - before;
    expect(anew > 0, "nothing was registered anew");
    // A registration for the path check, then another for the memory.
    expect((what != trouble::passing) || (anew == 2), "it was not proven anew");
}

template <operation *run>
void run_revoked(job &in, memory kind, memory)
{
    initiator by(true);
    fail_and_go_on(in, by, run, kind, trouble::revoked);
}

// A failure in one context is known to the others: to one with registered
// memory, and to one opened later. In the latter UCX stages copies itself, as
// it learns in time that nothing can be registered.
void run_lies(job &in, memory kind, memory)
{
    initiator by(true), early(true);
    user other(in, early, put, kind);

    other.succeed();
    fail_and_go_on(in, by, put, kind, trouble::passing);
    fail_and_go_on(in, by, get, kind, trouble::passing);
    fail_and_go_on(in, by, put, kind, trouble::lasting);
    other.fail({UCS_ERR_UNSUPPORTED});
    initiator late(true);
    user(in, late, put, kind).succeed();
    set_lie("");
}

// Mapped segments of the target, and reads of them by a key.
class segments_at_target {
public:
    segments_at_target()
    {
        for (unsigned each = 0; each < 4; ++each) {
            fill(each, 1);
        }
    }
    void remap(unsigned segment, uint8_t byte)
    {
        theirs_.remap(segment);
        fill(segment, byte);
    }
    void compare(const mapped_memory &from, size_t size)
    {
        by.wait(get(by, mine_.at(), size, theirs_.address(), from.key()),
                "a get");
        by.flush_ep();
        expect(std::ranges::equal(read_memory(memory::device, mine_.at(), size),
                                  std::span(bytes_).first(size)),
               "other bytes");
    }
    uint8_t *at(unsigned segment = 0)
    {
        return reinterpret_cast<uint8_t *>(theirs_.address()) +
               segment * step();
    }
    size_t step() const { return theirs_.step(); }
    size_t size() const { return theirs_.size(); }

    initiator by{true};

private:
    // Fills one segment with one byte.
    void fill(unsigned segment, uint8_t byte)
    {
        const auto part = std::span(bytes_).subspan(segment * step(), step());
        std::ranges::fill(part, byte);
        write_memory(memory::vmm, at(segment), part);
    }

    gpu::segments theirs_{4};
    const gpu::buffer mine_{theirs_.size(), memory::device};
    std::vector<uint8_t> bytes_ = std::vector<uint8_t>(theirs_.size());
};

void run_remapped_beside(job &, memory, memory)
{
    segments_at_target on;
    const mapped_memory first(on.by, on.at(), on.step());

    on.remap(3, 2);
    on.compare(first, on.step());
}

// When new memory replaces a part of a key's range, the key must become
// invalid, as it would reach the old bytes. A new key reaches the new bytes.
void run_remapped(job &, memory, memory)
{
    segments_at_target on;
    const mapped_memory all(on.by, on.at(), on.size());

    on.compare(all, on.size());
    on.remap(2, 3);
    try {
        on.compare(all, on.size());
    } catch (const failure &) {
        on.by.connect_anew();
        const mapped_memory anew(on.by, on.at(), on.size());
        on.compare(anew, on.size());
        return;
    }
    expect(false, "a get with the old key has passed");
}

// Returns the size of the process's data in bytes.
long data_bytes()
{
    std::ifstream in("/proc/self/statm");
    long pages = 0;

    for (int i = 0; i < 6; ++i) { // size resident shared text lib data
        in >> pages;
    }
    return pages * sysconf(_SC_PAGESIZE);
}

// Allocates and frees GPU memory while UCP holds a mapping and is not called,
// and measures the growth of host memory. Before and after that UCP sends new
// memory from a known address.
void run_releases(job &in, memory, memory)
{
    constexpr size_t size = 64 << 10;
    constexpr long times  = 20'000;
    remote_memory held(in.by(), in.random, memory::device, size, 0);
    const auto release = [](long count) {
        for (long i = 0; i < count; ++i) {
            const gpu::buffer memory(size);
        }
    };

    for (int round = 0; round < 2; ++round) {
        {
            known_memory mine(in.random, memory::device, size);
            std::copy_n(mine.expected(), size, held.expected());
            in.by().wait(
                put(in.by(), mine.at(), size, held.address(), held.key()),
                "ucp_put_nbx");
            in.by().flush_ep();
        }
        held.compare("a put");
        release(1000);
        const long before = data_bytes();
        release(times);
        const long grown = data_bytes() - before;
        expect(grown < times * 16, std::to_string(grown) + " bytes more");
    }
}

const test_case cases[] = {
    {"revoked", "a put", run_revoked<put>},
    {"revoked", "a get", run_revoked<get>},
    {"revoked", "a put", run_revoked<put>, memory::vmm},
    {"remapped", "a segment beside it", run_remapped_beside},
    {"remapped", "a segment of it", run_remapped},
    {"lies", "puts and gets, for once and from now on", run_lies},
    {"releases", "no memory for each", run_releases},
};

} // namespace

std::span<const test_case> revoked_cases()
{
    return cases;
}

} // namespace ucx_ib_dmabuf::test
