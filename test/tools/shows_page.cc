// SPDX-License-Identifier: BSD-3-Clause
//
// Publishes a page of metrics, as a program with the plug-in does, until it is
// killed. usage: shows_page HITS [HOW]
//   HITS  by how much "hits" grows each time that a reader asks
//   HOW   "gaps": hooks are missing; "newline": its name has one; or a faulty
//         page: "silent" never answers; "orders" has terminal commands in name
//         and page; "nonsense" is no JSON; "long" exceeds the page; "types" has
//         values of wrong types; "deep" has many lists in each other; "forged"
//         has another process's number
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <uct/ib_dmabuf/stats/counters.h>
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
    if (has_gaps) {
        all.set_hooks_missing("no \"hook\"");
    }
    all.of("mlx5_0", 0).add_region(0, 1 << 20);
    all.of("mlx5_bond_0", 11).add_region(1, 4 << 20);
    all.add_fallback(fallback_way::ucp, fallback_cause::no_room, "mlx5_bond_0",
                     11, 8);
    all.add("fallback_operations", 6, 5); // the same metric for other causes
    all.add("fallback_operations", 1, 0);
}

// Makes a page that lasts as long as the process. It counts as answered.
live_page *make_page(std::string_view text)
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
    page->answered = INT32_MAX;
    page->length   = text.size();
    std::copy(text.begin(), text.end(), page->text);
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        abort();
    }
    return page;
}

bool show_faulty(std::string_view how)
{
    const std::string many(json_max / 2 - 32, '[');

    if (how == "silent") {
        make_page("{}")->answered = 0;
    } else if (how == "orders") {
        prctl(PR_SET_NAME, orders);
        make_page(R"({"hits": 0, "hooks_missing": "\u001b]0;a\u0007\u001b[2J",
            "fallbacks": [{"way": "\u001b[2J", "cause": "\u009b",
                           "operations": 1}],
            "pairs": [{"nic": "\u001b[2J", "gpu": 0}], "\u001b[2J": 1})");
    } else if (how == "nonsense") {
        make_page("\xff\x1b[2J{\"hits\": 1");
    } else if (how == "long") {
        make_page("{}")->length = UINT64_MAX;
    } else if (how == "types") {
        make_page(R"({"hits": "1", "misses": -1, "regions": 1e99,
            "hooks_complete": [], "hooks_missing": 7, "fallbacks": 7,
            "pairs": [7, [], {"nic": {}, "gpu": "1", "path_bytes": [7, ""]}]})");
    } else if (how == "deep") {
        make_page("{\"hits\": 0, \"pairs\": " + many +
                  std::string(many.size(), ']') + "}");
    } else if (how == "forged") {
        make_page(R"({"pid": 1, "hits": 0, "pid": 1})");
    } else {
        return false;
    }
    return true;
}

bool show(std::string_view how)
{
    count(how == "gaps");
    if (how == "newline") {
        prctl(PR_SET_NAME, "shows_page\n");
    }
    return show_faulty(how) ||
           show_live([](bool) { process_counters.add("hits", each_time); });
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
