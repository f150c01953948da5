// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cerrno>
#include <chrono>
#include <ctime>
#include <map>
#include <set>
#include <sys/ioctl.h>
#include <thread>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <uct/ib_dmabuf/stats/stats_file.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

using number = unsigned long long;

// Examining each process of a machine takes a good part of a second.
constexpr int rounds_of_all = 10;

// Increase since the last round. A smaller count began anew, or is wrong.
template <class Row>
uint64_t increase(const Row &now, const Row &before, typename Row::metric which)
{
    const uint64_t value = now.get(which), old = before.get(which);
    return (value >= old) ? value - old : value;
}

struct program {
    int pid;
    std::string name;
    std::unique_ptr<counters> now, before;

    uint64_t lookups() const
    {
        return increase(*now, *before, "hits") +
               increase(*now, *before, "misses");
    }
};

// The sum of a metric's numbers, and the labels of the largest one, as "ucp:
// no_room".
template <class Row>
std::pair<uint64_t, std::string> sum(const Row &row, typename Row::metric which)
{
    const auto of = std::ranges::find(metrics, which.at, &metric_info::at);
    uint64_t all = 0, most = 0;
    std::string labels;

    for (size_t i = 0; i < of->size(); ++i) {
        const uint64_t one = row.get(which, i);
        all += one;
        if (one > most) {
            const auto [label, inner] = of->labels(i);
            most                      = one;
            labels = std::string(label) + (*inner == '\0' ? "" : ": ") + inner;
        }
    }
    return {all, labels};
}

// Of a program, or of a NIC and a GPU.
template <class Row>
std::string line(const std::string &name, const Row &now, const Row &before,
                 uint64_t bytes, const std::string &lookups,
                 const std::string &misses, const char *hooks)
{
    const std::string path        = sum(now, "path_bytes").second;
    const auto [fallbacks, cause] = sum(now, "fallback_operations");

    return format("%-25s  %10s  %8s  %8llu  %8llu  %7llu  %10.1f  %9llu  %-5s"
                  "  %s%s%s",
                  name.c_str(), lookups.c_str(), misses.c_str(),
                  number{increase(now, before, "registrations")},
                  number{increase(now, before, "evictions")},
                  number{now.get("regions")},
                  static_cast<double>(bytes) / (1 << 20), number{fallbacks},
                  hooks, path.c_str(),
                  path.empty() || cause.empty() ? "" : "; ", cause.c_str())
        .c_str();
}

// A program's own line, the first gap of its hooks, and its pairs, those with
// most bytes first.
void add_lines(const program &one, std::vector<std::string> *to)
{
    const counters &now   = *one.now;
    const std::string gap = printable(now.hooks_missing);
    std::vector<const pair_row *> pairs;

    to->push_back(line(
        format("%8d  %-15.15s", one.pid, one.name.c_str()).c_str(), now,
        *one.before, now.get("mapped_bytes"), std::to_string(one.lookups()),
        std::to_string(increase(now, *one.before, "misses")),
        now.get("hooks_complete") == 0 ? "gaps" : "all"));
    if (!gap.empty()) {
        to->push_back("    hooks: " + gap);
    }
    now.each_pair([&](const pair_row &each) { pairs.push_back(&each); });
    std::ranges::stable_sort(pairs, std::greater(), [](const pair_row *row) {
        return row->get("registered_bytes");
    });
    for (const pair_row *row : pairs) {
        const std::string gpu = (row->gpu < 0) ? "?" : std::to_string(row->gpu);
        const std::string name =
            "    " + printable(row->nic).substr(0, 14) + " GPU " + gpu;
        // A pair has the same row for as long as the program lives.
        to->push_back(line(name.substr(0, 25), *row,
                           one.before->pairs[row - now.pairs],
                           row->get("registered_bytes"), "-", "-", ""));
    }
}

std::string title(size_t programs)
{
    const time_t now = time(nullptr);
    tm local{};
    char clock[16] = "";

    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
    return format("%s  programs: %zu, by lookups in the last second", clock,
                  programs)
        .c_str();
}

// On a terminal a round overwrites the last one, and is cut off at the margins.
void print_table(std::vector<const program *> rows)
{
    std::ranges::stable_sort(rows, std::greater(), &program::lookups);
    std::vector<std::string> lines{
        title(rows.size()),
        "     PID  PROGRAM           LOOKUPS/s  MISSES/s  REGIST/s   EVICT/s  "
        "REGIONS  PINNED MiB  FALLBACKS  HOOKS  MOST BY"};
    const bool on_terminal = has_escapes();
    winsize size{};

    for (const program *each : rows) {
        add_lines(*each, &lines);
    }
    if (on_terminal && (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) &&
        (size.ws_row > 1)) {
        // The last line is the cursor's.
        lines.resize(std::min<size_t>(lines.size(), size.ws_row - 1));
    }
    printf("%s", on_terminal ? "\033[H" : "");
    for (const std::string &each : lines) {
        printf(
            "%s%s\n",
            each.substr(0, size.ws_col > 0 ? size.ws_col : each.npos).c_str(),
            on_terminal ? "\033[K" : "");
    }
    printf("%s", on_terminal ? "\033[J" : "");
}

std::string folder_of(int pid)
{
    return "/proc/" + std::to_string(pid);
}

// These processes and all their descendants; all processes if none is named.
std::set<int> family(const std::vector<int> &pids)
{
    std::map<int, int> parents;
    std::set<int> found(pids.begin(), pids.end());

    for (const std::string &name : list("/proc")) {
        if (const int pid = atoi(name.c_str()); pid > 0) {
            parents[pid] =
                atoi(line_of(folder_of(pid) + "/status", "PPid:").c_str());
        }
    }
    for (size_t before = SIZE_MAX; before != found.size();) {
        before = found.size();
        for (const auto &[pid, parent] : parents) {
            if (pids.empty() || found.contains(parent)) {
                found.insert(pid);
            }
        }
    }
    return found;
}

using programs = std::map<int, program>;

// Explains why a named process shows nothing, unless a descendant does.
void say_why_not(const std::vector<int> &pids, const programs &all)
{
    for (const int pid : pids) {
        const auto shows = [&](int each) { return all.contains(each); };
        if (std::ranges::none_of(family({pid}), shows) && !read_live(pid)) {
            fprintf(stderr, "ucx_dmabuf_info: %d: %s\n", pid,
                    (errno == ENODATA)
                        ? "no plug-in is loaded there, or it saw no GPU"
                    : (errno == EPROTO) ? "its plug-in is of another version"
                    : (errno == ENOENT) ? "there is no such process"
                                        : strerror(errno));
        }
    }
}

// Reads the counters of these, and forgets those that show none.
void read_all(std::set<int> pids, programs *all)
{
    for (const auto &[pid, one] : *all) {
        pids.insert(pid);
    }
    for (const int pid : pids) {
        auto now = read_live(pid);
        if (!now) {
            all->erase(pid);
            continue;
        }
        program &one = (*all)[pid];
        one.pid      = pid;
        one.name     = printable(line_of(folder_of(pid) + "/comm"));
        one.before =
            one.now ? std::move(one.now) : std::make_unique<counters>(*now);
        one.now = std::move(now);
    }
}

// Returns whether the output could be written.
bool print(const programs &all, bool as_json)
{
    std::vector<const program *> rows;
    static std::array<char, text_max> line;

    for (const auto &[pid, one] : all) {
        if (as_json) {
            // In a container it has another number.
            fputs(render_json(*one.now, pid, line).data(), stdout);
        }
        rows.push_back(&one);
    }
    if (!as_json) {
        print_table(rows);
    }
    return fflush(stdout) == 0;
}

} // namespace

int watch(const std::vector<int> &pids, int rounds, bool as_json)
{
    auto next    = std::chrono::steady_clock::now();
    bool was_any = false;
    programs all;

    for (int round = 0; (rounds == 0) || (round < rounds); ++round) {
        std::this_thread::sleep_until(next);
        next = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        const bool looks = !pids.empty() || (round % rounds_of_all == 0);
        read_all(looks ? family(pids) : std::set<int>(), &all);
        if (round == 0) {
            say_why_not(pids, all);
        }
        was_any |= !all.empty();
        if ((all.empty() && !pids.empty()) || !print(all, as_json)) {
            break; // the programs have ended, or the reader
        }
    }
    return was_any ? 0 : 1;
}

} // namespace ucx_ib_dmabuf::info
