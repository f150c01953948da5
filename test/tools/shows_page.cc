// SPDX-License-Identifier: BSD-3-Clause
//
// Shows a page of metrics, as a program with the plug-in does, until it is
// killed. usage: shows_page HITS [HOW]
//   HITS  there are more of each time that somebody asks
//   HOW   "gaps" of hooks; "newline", one in its name; or what a page should
//         not do: "silent", it never answers; "orders", name and page tell a
//         terminal what to do; "nonsense", what is no JSON; "many" names;
//         "long", a text that is longer than the page; "escaped", orders in
//         JSON; "forged", "deep"
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <uct/ib_dmabuf/metrics/live_page.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf;

namespace {

constexpr char orders[] = "\033]0;a\007\033[2J\x9b"
                          "2J";

std::atomic<uint64_t> hits{0};
uint64_t each_time = 0;
bool has_gaps      = false;

metrics now()
{
    metrics result{};

    result[metric::hits]           = hits.fetch_add(each_time);
    result[metric::misses]         = 3;
    result[metric::regions]        = 2;
    result[metric::mapped_bytes]   = 5 << 20;
    result[metric::hooks_complete] = has_gaps ? 0 : 1;
    result.hooks_missing           = has_gaps ? "no \"hook\"" : nullptr;
    result.fallbacks[0][0]         = {1, 4096};
    result.fallbacks[1][1]         = {7, 4096};
    result.pairs                   = &process_pairs;
    return result;
}

void count_pairs()
{
    pair_row &small = process_pairs.of("mlx5_0", 0);
    pair_row &large = process_pairs.of("mlx5_bond_0", 11);

    small.add_region(memory_path::standard, 1 << 20);
    large.add_region(memory_path::pcie, 4 << 20);
    large.add_fallback(fallback_way::ucp, fallback_cause::no_room, 8);
}

// A page in which there is what we say, for good.
void show(std::string_view text, size_t length)
{
    const int fd = memfd_create(live_page_name, MFD_ALLOW_SEALING);
    if ((fd < 0) || (ftruncate(fd, sizeof(live_page)) != 0)) {
        abort();
    }
    auto *page     = static_cast<live_page *>(mmap(
            nullptr, sizeof(live_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    page->magic    = live_page::right_magic;
    page->version  = live_page::right_version;
    page->size     = sizeof(live_page);
    page->pid      = static_cast<uint64_t>(getpid());
    page->answered = text.empty() ? 0 : INT32_MAX;
    page->length   = static_cast<uint32_t>(length);
    memcpy(page->text, text.data(), text.size());
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        abort();
    }
}

bool show(std::string_view how)
{
    if (how == "silent") {
        show("", 0);
    } else if (how == "orders") {
        prctl(PR_SET_NAME, orders);
        show("{\"pid\": 1, \"pairs\": [{\"nic\": \"\033[2J\"}]}\n", 43);
    } else if (how == "escaped") { // printable as it is, and orders in there
        constexpr std::string_view text =
            R"({"hooks_complete": 0, "hooks_missing": "\u001b[2J", "pairs": [)"
            R"({"nic": "\u001b[2J", "path_bytes": {"\u009b2J": 1}}]})"
            "\n";
        show(text, text.size());
    } else if (how == "forged") { // another's number, at two places
        constexpr std::string_view text =
            R"({"pid": 1, "hits": 1, "pid": 2, "name": "\u009b2J"})"
            "\n";
        show(text, text.size());
    } else if (how == "deep") {
        const std::string text =
            "{\"pid\": 1, \"a\": " + std::string(90000, '[') +
            std::string(90000, ']') + "}\n";
        show(text, text.size());
    } else if (how == "nonsense") {
        constexpr std::string_view text = "\"hits\": -7, \"pairs\": [{\"nic\": "
                                          "\"\\{\"nic\": \"gpu\": 99999999999, "
                                          "\"path_bytes\": \"\"\"\n";
        show(text, text.size());
    } else if (how == "many") {
        std::string text = "\"pairs\": [{\"nic\": \"\", \"path_bytes\": {";
        while (text.size() + 8 < json_max) {
            text += "\"\" ";
        }
        text += '\n';
        show(text, text.size());
    } else if (how == "long") {
        show("{", UINT32_MAX);
    } else {
        if (how == "newline") {
            prctl(PR_SET_NAME, "shows_page\n");
        }
        has_gaps = how == "gaps";
        count_pairs();
        return show_live(now);
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
