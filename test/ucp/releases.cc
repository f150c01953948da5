// SPDX-License-Identifier: BSD-3-Clause
//
// Allocates and frees GPU memory while UCP holds a mapping and is not called,
// and measures the growth of host memory. Then UCP sends new memory from a
// known address. Prints "ok - NAME" or "not ok - NAME: REASON".
#include "peers.h"
#include <cstdio>
#include <fstream>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t size = 64 << 10;

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

void allocate_and_free(unsigned times)
{
    for (unsigned i = 0; i < times; ++i) {
        const gpu::buffer memory(size);
    }
}

void put(initiator &by, uint8_t byte, const remote_memory &to)
{
    const ucp_request_param_t params = {};
    const gpu::buffer memory(size);

    write_memory(memory::device, memory.at(), std::vector<uint8_t>(size, byte));
    by.wait(ucp_put_nbx(by.ep(), memory.at(), size, to.address(0), to.key(),
                        &params),
            "ucp_put_nbx");
    by.flush_ep();
}

int run()
{
    constexpr unsigned times = 20'000;
    initiator by;
    std::mt19937_64 random(1);
    remote_memory held(by, random, memory::device, size, 0);

    for (const uint8_t byte : {1, 2}) {
        put(by, byte, held);
        std::fill_n(held.expected(0), size, byte);
        held.compare("a put");
        allocate_and_free(1000);
        const long before = data_bytes();
        allocate_and_free(times);
        const long grown = data_bytes() - before;
        printf("%s - round %d of %u releases: %ld bytes\n",
               (grown < long{times} * 16) ? "ok" : "not ok", byte, times,
               grown);
    }
    return 0;
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main()
{
    try {
        gpu::use();
        return ucx_ib_dmabuf::test::run();
    } catch (const std::exception &e) {
        printf("not ok - it runs: %s\n", e.what());
        return 1;
    }
}
