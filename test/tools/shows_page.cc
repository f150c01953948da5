// SPDX-License-Identifier: BSD-3-Clause
//
// Shows its counters, as a program with the plug-in does, until it is killed.
// usage: shows_page HITS [HOW]
//   HITS  how often a lookup hits in a millisecond
//   HOW   "gaps": hooks are missing; "newline": its name has one; "orders":
//         terminal commands in name and counters; "version": of another plug-in
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <sys/prctl.h>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf;

namespace {

constexpr char orders[] = "\033]0;a\007\033[2J\x9b"
                          "2J";

void count(std::string_view how)
{
    auto &all = process_counters;

    all.set("misses", 3);
    all.set("regions", 2);
    all.set("mapped_bytes", 5 << 20);
    all.add("path_bytes", 4 << 20, 1); // pcie
    all.set("hooks_complete", (how == "gaps") ? 0 : 1);
    if (how == "gaps") {
        all.hooks_missing.set("no \"hook\"");
    }
    all.of("mlx5_0", 0).add_region(0, 1 << 20);
    all.of("mlx5_bond_0", 11).add_region(1, 4 << 20);
    all.add_fallback(fallback_way::ucp, fallback_cause::no_room, "mlx5_bond_0",
                     11, 8);
    all.add("fallback_operations", 6, 5); // the same metric for other causes
    all.add("fallback_operations", 1, 0);
    if (how == "orders") {
        prctl(PR_SET_NAME, orders);
        all.hooks_missing.set(orders);
        all.of(orders, -7).add_region(0, UINT64_MAX);
    }
}

} // namespace

int main(int argc, char **argv)
{
    const std::string_view how = (argc > 2) ? argv[2] : "";
    const auto hits = (argc > 1) ? std::strtoull(argv[1], nullptr, 10) : 0;

    count(how);
    if (!show_live()) {
        perror("show_live");
        return 1;
    }
    if (how == "newline") {
        prctl(PR_SET_NAME, "shows_page\n");
    } else if (how == "version") {
        ++process_counters.layout;
    }
    puts("shown");
    fflush(stdout);
    for (;;) {
        usleep(1000);
        process_counters.add("hits", hits);
    }
}
