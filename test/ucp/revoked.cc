// SPDX-License-Identifier: BSD-3-Clause
//
// The NIC stops reaching GPU memory that is still allocated. By default its
// exporter revokes all registrations; with the argument "lies", access fails on
// the way; with "remapped", new memory replaces a part of it. The first
// operation afterwards fails with UCX's error. On a new endpoint, operations
// work, or fail before they send anything, as UCX can no longer stage copies
// for a broken path.
#include "peers.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <functional>
#include <lab/rxe_dmabuf.h>

namespace ucx_ib_dmabuf::test {
namespace {

// Large enough for a rendezvous without copies.
constexpr size_t length = 1 << 20;

struct job {
    initiator &by;
    std::mt19937_64 &random;
    bool stages; // UCX stages copies itself, as it can register none
};

template <class Function>
Function *of_preload(const char *name)
{
    void *const found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) {
        throw std::runtime_error(std::string("the lab has no ") + name);
    }
    return reinterpret_cast<Function *>(found);
}

rxe_dmabuf_counters_t registered()
{
    rxe_dmabuf_counters_t result = {};
    of_preload<decltype(rxe_dmabuf_counters)>("rxe_dmabuf_counters")(&result);
    return result;
}

// The other end uses host memory. Its registration is not of a dma-buf.
using operation = ucs_status_ptr_t(initiator &by, void *mine,
                                   const remote_memory &theirs);

ucs_status_ptr_t put(initiator &by, void *mine, const remote_memory &theirs)
{
    const ucp_request_param_t params = {};
    return ucp_put_nbx(by.ep(), mine, length, theirs.address(0), theirs.key(),
                       &params);
}

ucs_status_ptr_t get(initiator &by, void *mine, const remote_memory &theirs)
{
    const ucp_request_param_t params = {};
    return ucp_get_nbx(by.ep(), mine, length, theirs.address(0), theirs.key(),
                       &params);
}

// Runs the operation and waits until its bytes have arrived.
ucs_status_t status_of(initiator &by, operation *run, void *mine,
                       const remote_memory &theirs)
{
    try {
        by.wait(run(by, mine, theirs), "");
        by.flush_ep();
        return UCS_OK;
    } catch (const failure &failed) {
        return failed.status();
    }
}

void expect_bytes(const gpu::buffer &mine, std::span<const uint8_t> expected)
{
    const std::string differs = difference(
        read_memory(mine.kind(), mine.at(), expected.size()), expected);
    if (!differs.empty()) {
        throw std::runtime_error(differs);
    }
}

// Runs the operation and checks that both sides have the same bytes.
void run_and_compare(job &in, operation *run, const gpu::buffer &mine)
{
    remote_memory theirs(in.by, in.random, memory::host, length, 64);
    std::vector<uint8_t> bytes(length);

    std::generate(bytes.begin(), bytes.end(),
                  [&] { return static_cast<uint8_t>(in.random()); });
    write_memory(mine.kind(), mine.at(), bytes);
    check(status_of(in.by, run, mine.pointer(), theirs), "the operation");
    if (run == put) {
        std::copy(bytes.begin(), bytes.end(), theirs.expected(0));
    }
    theirs.compare("the operation");
    expect_bytes(mine, {theirs.expected(0), length});
}

void expect(bool good, const char *what)
{
    if (!good) {
        throw std::runtime_error(what);
    }
}

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

void begin(trouble what)
{
    if (what == trouble::revoked) {
        const auto revoke =
            of_preload<decltype(rxe_dmabuf_revoke)>("rxe_dmabuf_revoke");
        expect(revoke() > 0, "nothing was revoked");
    } else {
        set_lie("fail");
    }
}

void expect_failure(job &in, operation *run, const gpu::buffer &mine,
                    std::initializer_list<ucs_status_t> with)
{
    remote_memory theirs(in.by, in.random, memory::host, length, 64);
    const ucs_status_t status = status_of(in.by, run, mine.pointer(), theirs);

    if (std::find(with.begin(), with.end(), status) == with.end()) {
        throw std::runtime_error(
            std::string("what does not reach the memory ended with ") +
            ucs_status_string(status));
    }
}

void fail_and_go_on(job &in, operation *run, memory kind, trouble what)
{
    const gpu::buffer mine(length, kind);

    run_and_compare(in, run, mine);
    const uint64_t before = registered().registrations;
    run_and_compare(in, run, mine);
    expect(registered().registrations == before,
           "what is registered is not used again");
    begin(what);
    // UCX may first report an operation that was queued behind the failed one.
    expect_failure(in, run, mine, {UCS_ERR_IO_ERROR, UCS_ERR_CANCELED});
    if (what == trouble::passing) {
        set_lie("");
    }
    in.by.connect_anew();
    if ((what == trouble::lasting) && !in.stages) {
        expect_failure(in, run, mine, {UCS_ERR_UNSUPPORTED});
        return;
    }
    run_and_compare(in, run, mine);
    const uint64_t anew = registered().registrations - before;
    expect(anew > 0, "nothing was registered anew");
    // A registration for the path check, then another for the memory.
    expect((what != trouble::passing) || (anew == 2), "it was not proven anew");
}

struct test_case {
    const char *name;
    operation *run;
    memory kind;
    trouble what;
};

const test_case revoked_cases[] = {
    {"a put", put, memory::device, trouble::revoked},
    {"a get", get, memory::device, trouble::revoked},
    {"a put, mapped memory", put, memory::vmm, trouble::revoked},
};

// The last case must be last, as access keeps failing.
const test_case lying_cases[] = {
    {"a put, for once", put, memory::device, trouble::passing},
    {"a get, for once", get, memory::device, trouble::passing},
    {"a put, from now on", put, memory::device, trouble::lasting},
};

bool passes(const char *name, const std::function<void()> &run)
{
    std::string failure;
    try {
        run();
    } catch (const std::exception &failed) {
        failure = std::string(": ") + failed.what();
    }
    printf("%sok - %s%s\n", failure.empty() ? "" : "not ", name,
           failure.c_str());
    fflush(stdout);
    return failure.empty(); // after a failure the endpoint's state is unknown
}

bool run_cases(job &in, std::span<const test_case> cases)
{
    return std::all_of(cases.begin(), cases.end(), [&](const test_case &one) {
        return passes(one.name,
                      [&] { fail_and_go_on(in, one.run, one.kind, one.what); });
    });
}

// Mapped segments of the target, and reads of them by a key.
class segments_at_target {
public:
    // Fills one segment with one byte.
    void fill(unsigned segment, uint8_t byte)
    {
        std::fill_n(bytes_.begin() + segment * step(), step(), byte);
        write_memory(memory::vmm, at() + segment * step(),
                     {bytes_.data() + segment * step(), step()});
    }
    void remap(unsigned segment, uint8_t byte)
    {
        theirs_.remap(segment);
        fill(segment, byte);
    }
    void compare(const mapped_memory &from, size_t size)
    {
        const ucp_request_param_t params = {};
        by.wait(ucp_get_nbx(by.ep(), mine_.pointer(), size, theirs_.address(),
                            from.key(), &params),
                "a get");
        by.flush_ep();
        expect_bytes(mine_, {bytes_.data(), size});
    }
    uint8_t *at() { return reinterpret_cast<uint8_t *>(theirs_.address()); }
    size_t step() const { return theirs_.step(); }
    size_t size() const { return theirs_.size(); }

    initiator by{true};

private:
    gpu::segments theirs_{4};
    const gpu::buffer mine_{theirs_.size(), memory::device};
    std::vector<uint8_t> bytes_ = std::vector<uint8_t>(theirs_.size());
};

// When new memory replaces a part of a key's range, the key must become
// invalid, as it would reach the old bytes. A new key reaches the new bytes.
bool run_remapped()
{
    segments_at_target on;
    for (unsigned each = 0; each < 4; ++each) {
        on.fill(each, 1);
    }
    return passes("a segment beside it is remapped",
                  [&] {
                      const mapped_memory first(on.by, on.at(), on.step());
                      on.remap(3, 2);
                      on.compare(first, on.step());
                  }) &&
           passes("a segment of it is remapped", [&] {
               const mapped_memory all(on.by, on.at(), on.size());
               on.compare(all, on.size());
               on.remap(2, 3);
               try {
                   on.compare(all, on.size());
                   expect(false, "a get with the old key has passed");
               } catch (const failure &) {
                   on.by.connect_anew();
               }
               const mapped_memory anew(on.by, on.at(), on.size());
               on.compare(anew, on.size());
           });
}

bool run_revoked()
{
    std::mt19937_64 random(1);
    initiator by(true);
    job in = {by, random, true};

    return run_cases(in, revoked_cases);
}

// A failure in one context is known to the others: to one with registered
// memory, and to one opened later. In the latter UCX stages copies itself, as
// it learns in time that nothing can be registered.
bool run_lying()
{
    std::mt19937_64 random(1);
    initiator by(true), early(true);
    job in = {by, random, false}, in_early = {early, random, false};
    const gpu::buffer mine(length, memory::device);

    const bool good =
        passes("another context",
               [&] { run_and_compare(in_early, put, mine); }) &&
        run_cases(in, lying_cases) &&
        passes("the other context has heard of it",
               [&] {
                   expect_failure(in_early, put, mine, {UCS_ERR_UNSUPPORTED});
               }) &&
        passes("a context that is opened then", [&] {
            initiator late(true);
            job in_late = {late, random, true};
            run_and_compare(in_late, put, mine);
        });
    set_lie("");
    return good;
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main(int argc, char **argv)
{
    using namespace ucx_ib_dmabuf::test;
    try {
        const std::string_view what = (argc > 1) ? argv[1] : "";
        const bool good             = (what == "lies")       ? run_lying()
                                      : (what == "remapped") ? run_remapped()
                                                             : run_revoked();
        return good ? 0 : 1;
    } catch (const std::exception &failed) {
        fprintf(stderr, "%s\n", failed.what());
        return 1;
    }
}
