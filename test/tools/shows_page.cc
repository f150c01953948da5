// SPDX-License-Identifier: BSD-3-Clause
//
// Shows a page of metrics, as a program with the plug-in does, until it is
// killed. usage: shows_page HITS, that there are more each time that somebody
// asks
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <uct/ib_dmabuf/metrics/live_page.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf;

namespace {

std::atomic<uint64_t> hits{0};
uint64_t each_time = 0;

metrics now()
{
    metrics result{};

    result[metric::hits]         = hits.fetch_add(each_time);
    result[metric::misses]       = 3;
    result[metric::regions]      = 2;
    result[metric::mapped_bytes] = 5 << 20;
    result.fallbacks[0][0]       = {1, 4096};
    result.fallbacks[1][1]       = {7, 4096};
    return result;
}

} // namespace

int main(int argc, char **argv)
{
    each_time = (argc > 1) ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (!show_live(now)) {
        perror("show_live");
        return 1;
    }
    puts("shown");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
