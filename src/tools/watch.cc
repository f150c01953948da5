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
constexpr unsigned rounds_of_all = 10;

// Increase since the last round. A smaller count began anew, or is wrong.
template <class Row>
uint64_t increase(const Row &now, const Row &before, typename Row::metric which)
{
    const uint64_t value = now.get(which), old = before.get(which);
    return (value >= old) ? value - old : value;
}

// The sum of numbers that follow each other, and the index of the largest.
struct summary {
    uint64_t sum = 0;
    size_t most  = 0;

    template <class Row>
    summary(const Row &row, typename Row::metric which, size_t count)
    {
        for (size_t i = 0; i < count; ++i) {
            sum += row.get(which, i);
            most = (row.get(which, i) > row.get(which, most)) ? i : most;
        }
    }
};

template <class Row>
std::string columns(const Row &now, const Row &before, uint64_t bytes,
                    uint64_t fallbacks, const char *hooks,
                    const std::string &most)
{
    return format("  %8llu  %8llu  %7llu  %10.1f  %9llu  %-5s  %s",
                  number{increase(now, before, "registrations")},
                  number{increase(now, before, "evictions")},
                  number{now.get("regions")},
                  static_cast<double>(bytes) / (1 << 20), number{fallbacks},
                  hooks, most.c_str())
        .c_str();
}

std::string pair_line(const pair_row &now, const pair_row &before)
{
    const summary paths(now, "path_bytes", by_path.count());
    const summary causes(now, "fallback_operations", by_cause.count());
    std::string most(paths.sum == 0 ? "" : by_path.values[paths.most]);

    if (causes.sum != 0) {
        most += (most.empty() ? "" : "; ") +
                std::string(by_cause.values[causes.most]);
    }
    const std::string gpu = (now.gpu < 0) ? "?" : std::to_string(now.gpu);
    const std::string who = printable(now.nic).substr(0, 14) + " GPU " + gpu;
    return format("    %-21.21s  %10s  %8s", who.c_str(), "-", "-").c_str() +
           columns(now, before, now.get("registered_bytes"), causes.sum, "",
                   most);
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

// A program's own line, the first gap of its hooks, and its pairs, those with
// most bytes first.
void add_lines(const program &one, std::vector<std::string> *to)
{
    const counters &now = *one.now;
    const size_t causes = by_cause.count();
    const summary fallbacks(now, "fallback_operations",
                            by_way.count() * causes);
    const std::string gap = printable(now.hooks_missing);
    std::vector<const pair_row *> pairs;
    std::string most;

    if (fallbacks.sum != 0) {
        most = std::string(by_way.values[fallbacks.most / causes]) + ": " +
               std::string(by_cause.values[fallbacks.most % causes]);
    }
    to->push_back(
        format("%8d  %-15.15s  %10llu  %8llu", one.pid, one.name.c_str(),
               number{one.lookups()},
               number{increase(now, *one.before, "misses")})
            .c_str() +
        columns(now, *one.before, now.get("mapped_bytes"), fallbacks.sum,
                now.get("hooks_complete") == 0 ? "gaps" : "all", most));
    if (!gap.empty()) {
        to->push_back("    hooks: " + gap);
    }
    now.each_pair([&](const pair_row &each) { pairs.push_back(&each); });
    std::ranges::stable_sort(pairs, std::greater(), [](const pair_row *row) {
        return row->get("registered_bytes");
    });
    for (const pair_row *row : pairs) {
        // A pair has the same row for as long as the program lives.
        to->push_back(pair_line(*row, one.before->pairs[row - now.pairs]));
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
    std::vector<char> line(json_max);

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

int watch(const std::vector<int> &pids, unsigned rounds, bool as_json)
{
    auto next    = std::chrono::steady_clock::now();
    bool was_any = false;
    programs all;

    for (unsigned round = 0; (rounds == 0) || (round < rounds); ++round) {
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
