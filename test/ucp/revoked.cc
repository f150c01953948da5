// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of the GPU's is where it was, but the NIC does not reach it any more:
// its exporter has revoked what was registered. The operation that comes to it
// fails with UCX's error; those on a new endpoint work.
#include "two_processes.h"
#include <algorithm>
#include <cstdio>
#include <dlfcn.h>
#include <lab/rxe_dmabuf.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

// By rendezvous and without copies.
constexpr size_t length = 1 << 20;

struct job {
    initiator &by;
    std::mt19937_64 &random;
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

// The other end's memory is the host's: what is registered there is no dma-buf.
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

// Until it has arrived.
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

// What both have is the same afterwards.
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
    const std::string differs =
        difference(read_memory(mine.kind(), mine.at(), length),
                   {theirs.expected(0), length});
    if (!differs.empty()) {
        throw std::runtime_error(differs);
    }
}

void expect(bool good, const char *what)
{
    if (!good) {
        throw std::runtime_error(what);
    }
}

void fail_and_go_on(job &in, operation *run, memory kind)
{
    const gpu::buffer mine(length, kind);
    const auto revoke =
        of_preload<decltype(rxe_dmabuf_revoke)>("rxe_dmabuf_revoke");

    run_and_compare(in, run, mine);
    const uint64_t before = registered().registrations;
    run_and_compare(in, run, mine);
    expect(registered().registrations == before,
           "what is registered is not used again");
    expect(revoke() > 0, "nothing was revoked");
    {
        remote_memory theirs(in.by, in.random, memory::host, length, 64);
        const ucs_status_t status =
            status_of(in.by, run, mine.pointer(), theirs);
        // The first that is told may be what was queued behind it.
        if ((status != UCS_ERR_IO_ERROR) && (status != UCS_ERR_CANCELED)) {
            throw std::runtime_error(
                std::string("with what is revoked it ended with ") +
                ucs_status_string(status));
        }
    }
    in.by.connect_anew();
    run_and_compare(in, run, mine);
    expect(registered().registrations > before, "nothing was registered anew");
}

struct test_case {
    const char *name;
    operation *run;
    memory kind;
};

const test_case cases[] = {
    {"a put", put, memory::device},
    {"a get", get, memory::device},
    {"a put, mapped memory", put, memory::vmm},
};

bool run_cases(int fd)
{
    channel orders(fd);
    std::mt19937_64 random(1);
    initiator by(orders, true);
    job in = {by, random};

    for (const test_case &one : cases) {
        try {
            fail_and_go_on(in, one.run, one.kind);
            printf("ok - %s\n", one.name);
        } catch (const std::exception &failed) {
            printf("not ok - %s: %s\n", one.name, failed.what());
            fflush(stdout);
            return false; // who knows what the endpoint is good for
        }
        fflush(stdout);
    }
    return true;
}

int main()
{
    int orders        = -1;
    const pid_t other = fork_other(&orders);

    if (!run_cases(orders)) {
        _exit(1);
    }
    int status = 0;
    waitpid(other, &status, 0);
    printf("%sok - the other process has ended\n", (status == 0) ? "" : "not ");
    return 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main()
{
    try {
        return ucx_ib_dmabuf::test::main();
    } catch (const std::exception &failed) {
        fprintf(stderr, "%s\n", failed.what());
        return 1;
    }
}
