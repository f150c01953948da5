// SPDX-License-Identifier: BSD-3-Clause
//
// Publishes a page of metrics, as a program with the plug-in does, until it is
// killed. usage: shows_page HITS [HOW]
//   HITS  by how much "hits" grows each time that a reader asks
//   HOW   "gaps": hooks are missing; "newline": its name has one; or a faulty
//         page: "silent" never answers; "orders" has terminal commands in name
//         and page; "nonsense" has random bytes; "many" has more metrics than
//         fit; "forged" has another process's number
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <span>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf;

namespace {

constexpr char orders[] = "\033]0;a\007\033[2J\x9b"
                          "2J";

uint64_t each_time = 0;

void count(bool has_gaps)
{
    auto &all = process_counters;

    all.set("misses", 3);
    all.set("regions", 2);
    all.set("mapped_bytes", 5 << 20);
    all.set("hooks_complete", has_gaps ? 0 : 1);
    if (has_gaps && all.hooks_missing.begin()) {
        all.hooks_missing.finish("no \"hook\"");
    }
    all.of("mlx5_0", 0).add_region(0, 1 << 20);
    all.of("mlx5_bond_0", 11).add_region(1, 4 << 20);
    all.add_fallback(fallback_way::ucp, fallback_cause::no_room, "mlx5_bond_0",
                     11, 8);
    all.add("fallback_operations", 6, 5); // the same metric for other causes
    all.add("fallback_operations", 1, 0);
}

// Returns the counters of a page that lasts as long as the process.
described_counters &make_page(bool answered)
{
    const int fd = memfd_create(live_page_name, MFD_ALLOW_SEALING);
    if ((fd < 0) || (ftruncate(fd, sizeof(live_page)) != 0)) {
        abort();
    }
    auto *page     = static_cast<live_page *>(mmap(
            nullptr, sizeof(live_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    page->magic    = live_page::right_magic;
    page->version  = live_page::right_version;
    page->pid      = static_cast<uint64_t>(getpid());
    page->answered = answered ? INT32_MAX : 0;
    page->counters.read();
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        abort();
    }
    return page->counters;
}

void order(char *text)
{
    strcpy(text, orders);
}

bool show(std::string_view how)
{
    count(how == "gaps");
    if (how == "silent") {
        make_page(false);
    } else if (how == "orders") {
        prctl(PR_SET_NAME, orders);
        auto &page = make_page(true);
        order(page.process[0].name);
        order(page.process[19].labels);
        order(page.now.hooks_missing.text);
        page.now.hooks_missing.state = once_text<256>::written;
        order(page.now.pairs[0].nic.text);
    } else if (how == "nonsense") {
        auto &page    = make_page(true);
        unsigned byte = 1;
        for (char &each :
             std::span(reinterpret_cast<char *>(&page.now), sizeof(page.now))) {
            each = static_cast<char>(byte = byte * 31 + 7);
        }
    } else if (how == "many") {
        make_page(true).process_count = UINT32_MAX;
    } else if (how == "forged") {
        strcpy(make_page(true).process[3].name, "pid");
    } else {
        if (how == "newline") {
            prctl(PR_SET_NAME, "shows_page\n");
        }
        return show_live([](bool) { process_counters.add("hits", each_time); });
    }
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    each_time = (argc > 1) ? std::strtoull(argv[1], nullptr, 10) : 0;
    if (!show((argc > 2) ? argv[2] : "")) {
        perror("show_live");
        return 1;
    }
    puts("shown");
    fflush(stdout);
    for (;;) {
        pause();
    }
}
