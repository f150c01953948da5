// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the counters of running programs, from the page that each one
// publishes (stats/live_page.h): a line for each program, and below it a line
// for each of its pairs of NIC and GPU.
#include "answer.h"
#include "report.h"
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <set>
#include <sys/ioctl.h>
#include <thread>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

using number = unsigned long long;

constexpr unsigned patience = 200; // milliseconds for all answers
// Examining each process of a machine takes a good part of a second.
constexpr unsigned rounds_of_all = 10;

// A running program.
// NOLINTNEXTLINE(bugprone-exception-escape): of json's move, which throws not
struct program {
    int pid = 0;
    std::string name{}; // any bytes
    std::unique_ptr<live_reader> page{};
    std::string answer{}; // to the last request; empty if there is none
    json now{}, before{}; // the last two answers
    bool answers = false;

    void take_answer()
    {
        json next = parse(answer);

        // A page has at most 129 pairs; a forged one would take long.
        answers = next.is_object() && (member(next, "pairs").size() <= 256);
        if (answers) {
            next["pid"] = pid; // in a container it has another one
            before      = now.is_null() ? next : std::move(now);
            now         = std::move(next);
        }
    }
    uint64_t lookups() const // between the two
    {
        return increase(now, before, "hits") + increase(now, before, "misses");
    }
};

double in_mib(uint64_t bytes)
{
    return static_cast<double>(bytes) / (1 << 20);
}

// The columns of a program or a pair. Only programs have `hooks`, and count
// lookups.
std::string columns(const json &now, const json &before, const char *bytes,
                    const summary &fallbacks, const char *hooks = nullptr)
{
    const std::string path = sum_of(member(now, "path_bytes")).most;
    const bool both        = !path.empty() && !fallbacks.most.empty();
    const uint64_t misses  = increase(now, before, "misses");
    const uint64_t lookups = increase(now, before, "hits") + misses;
    const auto of_program  = [&](uint64_t value) {
        return (hooks == nullptr) ? "-" : std::to_string(value);
    };

    return format("  %10.10s  %8.8s  %8llu  %8llu  %7llu  %10.1f  %9llu  %-5s  "
                  "%.60s",
                  of_program(lookups).c_str(), of_program(misses).c_str(),
                  number{increase(now, before, "registrations")},
                  number{increase(now, before, "evictions")},
                  number{number_of(now, "regions")},
                  in_mib(number_of(now, bytes)), number{fallbacks.sum},
                  (hooks == nullptr) ? "" : hooks,
                  (path + (both ? "; " : "") + fallbacks.most).c_str())
        .c_str();
}

std::string pair_line(const program &one, const json &row)
{
    const json &index     = member(row, "gpu");
    const std::string gpu = index.is_number_unsigned() ? index.dump() : "?";
    const std::string who = text_of(row, "nic").substr(0, 14) + " GPU " + gpu;
    json before; // stays null if the pair is new

    for (const json &each : member(one.before, "pairs")) {
        if ((member(each, "nic") == member(row, "nic")) &&
            (member(each, "gpu") == index)) {
            before = each;
        }
    }
    return format("    %-21.21s", who.c_str()).c_str() +
           columns(row, before, "registered_bytes",
                   sum_of(member(row, "fallback_causes")));
}

std::string program_line(const program &one)
{
    const json &complete = member(one.now, "hooks_complete");
    const char *hooks    = complete.is_null() ? "?"
                           : (complete == 0)  ? "gaps"
                                              : "all";

    return format("%8d  %-15.15s", one.pid, printable(one.name).c_str())
               .c_str() +
           (one.answers ? columns(one.now, one.before, "mapped_bytes",
                                  fallbacks_of(one.now), hooks)
                        : "  does not answer");
}

// Adds the lines of a program: its own, the first gap of its hooks, and its
// pairs, those with most bytes first.
void add_lines(const program &one, std::vector<std::string> *to)
{
    const std::string gap = text_of(one.now, "hooks_missing");
    std::vector<const json *> pairs;

    to->push_back(program_line(one));
    if (!one.answers) {
        return;
    }
    if (!gap.empty()) {
        to->push_back("    hooks: " + gap);
    }
    for (const json &each : member(one.now, "pairs")) {
        pairs.push_back(&each);
    }
    std::ranges::stable_sort(pairs, std::greater(), [](const json *row) {
        return number_of(*row, "registered_bytes");
    });
    for (const json *row : pairs) {
        to->push_back(pair_line(one, *row));
    }
}

std::string title(const std::vector<const program *> &rows)
{
    const time_t now = time(nullptr);
    tm local{};
    char clock[16]   = "";
    uint64_t lookups = 0, bytes = 0, fallbacks = 0;

    for (const program *each : rows) {
        lookups += each->lookups();
        bytes += number_of(each->now, "mapped_bytes");
        fallbacks += fallbacks_of(each->now).sum;
    }
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
    return format("%s  programs: %zu, by lookups in the last second; all: %llu "
                  "lookups/s, %.1f MiB pinned, %llu fallbacks",
                  clock, rows.size(), number{lookups}, in_mib(bytes),
                  number{fallbacks})
        .c_str();
}

// Prints a round. On a terminal it overwrites the last round, and is cut off at
// the margins.
void print_table(std::vector<const program *> rows)
{
    std::ranges::stable_sort(rows, std::greater(), &program::lookups);
    std::vector<std::string> lines{
        title(rows),
        "     PID  PROGRAM           LOOKUPS/s  MISSES/s  REGIST/s   EVICT/s  "
        "REGIONS  PINNED MiB  FALLBACKS  HOOKS  MOST BY"};
    winsize size{};

    for (const program *each : rows) {
        add_lines(*each, &lines);
    }
    if (!has_escapes()) {
        for (const std::string &each : lines) {
            puts(each.c_str());
        }
        return;
    }
    if ((ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) && (size.ws_row > 1)) {
        // The last line is the cursor's.
        lines.resize(std::min<size_t>(lines.size(), size.ws_row - 1));
    }
    printf("\033[H");
    for (const std::string &each : lines) {
        printf(
            "%s\033[K\n",
            each.substr(0, size.ws_col > 0 ? size.ws_col : each.npos).c_str());
    }
    printf("\033[J");
}

std::string folder_of(int pid)
{
    return "/proc/" + std::to_string(pid);
}

// Returns these processes and all their descendants, as those of mpirun, or all
// processes if none is named.
std::set<int> family(const std::vector<int> &pids)
{
    const tree files;
    std::map<int, int> parents;
    std::set<int> found(pids.begin(), pids.end());

    for (const std::string &name : files.list("/proc")) {
        if (const int pid = atoi(name.c_str()); pid > 0) {
            parents[pid] =
                atoi(files.line(folder_of(pid) + "/status", "PPid:").c_str());
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

class watcher {
public:
    explicit watcher(const std::vector<int> &pids) : pids_(pids) {}

    void find_new()
    {
        for (const int pid : family(pids_)) {
            if (!all_.contains(pid)) {
                open_page(pid);
            }
        }
    }

    // Explains why a named process has no page, unless a descendant has one.
    void say_why_not() const
    {
        for (const int pid : pids_) {
            const auto shows = [&](int each) { return all_.contains(each); };
            if (std::ranges::none_of(family({pid}), shows) &&
                !live_reader::open(pid)) {
                fprintf(stderr, "ucx_dmabuf_info: %d: %s\n", pid,
                        (errno == ENODATA)
                            ? "no plug-in is loaded there, or it saw no GPU"
                        : (errno == EPROTO)
                            ? "its plug-in is of another version"
                        : (errno == ENOENT) ? "there is no such process"
                                            : strerror(errno));
            }
        }
    }

    // Sends all requests before it waits for the first answer.
    void ask()
    {
        for (auto &[pid, one] : all_) {
            one.answer.clear();
            one.page->request();
        }
        for (unsigned waited = 0; !have_answered() && (waited < patience);
             ++waited) {
            usleep(1000);
        }
        for (auto &[pid, one] : all_) {
            one.take_answer();
        }
        // Not answered: it is stopped or gone, or now runs another program.
        std::erase_if(all_, [&](auto &each) {
            return !each.second.answers && !open_page(each.first);
        });
    }

    // Returns whether the output could be written.
    bool print(bool as_json) const
    {
        std::vector<const program *> rows;

        for (const auto &[pid, one] : all_) {
            if (as_json && one.answers) {
                puts(one.now.dump(-1, ' ', true).c_str());
            }
            rows.push_back(&one);
        }
        if (!as_json) {
            print_table(rows);
        }
        return fflush(stdout) == 0;
    }

    bool empty() const { return all_.empty(); }

private:
    bool open_page(int pid)
    {
        auto page = live_reader::open(pid);
        if (!page) {
            return false;
        }
        program &one = all_[pid];
        one.pid      = pid;
        one.name     = tree().line(folder_of(pid) + "/comm");
        one.page     = std::move(page);
        return true;
    }

    bool have_answered()
    {
        bool all = true;

        for (auto &[pid, one] : all_) {
            if (one.answer.empty()) {
                one.answer = one.page->answer();
            }
            all &= !one.answer.empty();
        }
        return all;
    }

    const std::vector<int> &pids_;
    std::map<int, program> all_;
};

} // namespace

int watch(const std::vector<int> &pids, unsigned rounds, bool as_json)
{
    auto next = std::chrono::steady_clock::now();
    watcher all(pids);
    bool was_any = false;

    for (unsigned round = 0; (rounds == 0) || (round < rounds); ++round) {
        std::this_thread::sleep_until(next);
        next = std::chrono::steady_clock::now() + std::chrono::seconds(1);
        if (!pids.empty() || (round % rounds_of_all == 0)) {
            all.find_new();
        }
        if (round == 0) {
            all.say_why_not();
        }
        all.ask();
        was_any |= !all.empty();
        if ((all.empty() && !pids.empty()) || !all.print(as_json)) {
            break; // the programs have ended, or the reader
        }
    }
    return was_any ? 0 : 1;
}

} // namespace ucx_ib_dmabuf::info
