// SPDX-License-Identifier: BSD-3-Clause
//
// The counters of running programs as a table: a line for each program, and
// below it a line for each of its pairs of NIC and GPU.
#include "terminal.h"
#include "watch.h"
#include <algorithm>
#include <ctime>
#include <functional>
#include <uct/ib_dmabuf/report.h>

namespace ucx_ib_dmabuf::info {
namespace {

using number = unsigned long long;

// Replaces the characters that a terminal interprets.
std::string printable(std::string text)
{
    for (char &each : text) {
        each = ((each < ' ') || (each > '~')) ? '?' : each;
    }
    return text;
}

double in_mib(uint64_t bytes)
{
    return static_cast<double>(bytes) / (1 << 20);
}

// Increase since the last round. A smaller count began anew, or is wrong.
uint64_t since(uint64_t now, uint64_t before)
{
    return (now >= before) ? now - before : now;
}

// A metric's sum, and the labels of its largest number.
struct summary {
    uint64_t sum = 0;
    std::string most{};
};

summary sum_of(const metric_view &all, const char *name)
{
    const metric_info *one = all.find(name);
    uint64_t most          = 0;
    summary made;

    for (size_t i = 0; (one != nullptr) && (i < one->size()); ++i) {
        const uint64_t value = all.numbers[one->at + i];
        made.sum += value;
        if (value > most) {
            most      = value;
            made.most = "";
            each_label(*one, i, [&](auto, auto label) {
                made.most += (made.most.empty() ? "" : ": ");
                made.most += printable(std::string(label));
            });
        }
    }
    return made;
}

// A line of a program or a pair; only programs count lookups and misses.
std::string columns(const std::string &who, const std::string &lookups,
                    const std::string &misses, const metric_view &now,
                    const metric_view &before, const char *bytes,
                    const char *hooks)
{
    const auto changed = [&](const char *name) {
        return number{since(now[name], before[name])};
    };
    const summary path      = sum_of(now, "path_bytes");
    const summary fallbacks = sum_of(now, "fallback_operations");
    const bool both         = !path.most.empty() && !fallbacks.most.empty();

    return format("%-25.25s  %10.10s  %8.8s  %8llu  %8llu  %7llu  %10.1f  "
                  "%9llu  %-5.5s  %.60s",
                  who.c_str(), lookups.c_str(), misses.c_str(),
                  changed("registrations"), changed("evictions"),
                  number{now["regions"]}, in_mib(now[bytes]),
                  number{fallbacks.sum}, hooks,
                  (path.most + (both ? "; " : "") + fallbacks.most).c_str())
        .c_str();
}

// Rows never move, so a pair has the same index in both answers.
std::string pair_line(const program &one, const pair_row &row)
{
    const pair_row &before = one.before->now.pairs[&row - one.now->now.pairs];
    const std::string gpu =
        (row.gpu_number() < 0) ? "?" : std::to_string(row.gpu_number());
    const std::string nic =
        printable(row.nic_name()).substr(0, 16 - gpu.size());

    return columns("    " + nic + " GPU " + gpu, "-", "-", one.now->of(row),
                   one.before->of(before), "registered_bytes", "");
}

std::string program_line(const program &one)
{
    const std::string who =
        format("%8d  %-15.15s", one.pid, printable(one.name).c_str()).c_str();
    const metric_view now  = one.now->of_process();
    const metric_view then = one.before->of_process();

    return one.answers
               ? columns(who, std::to_string(one.lookups()),
                         std::to_string(since(now["misses"], then["misses"])),
                         now, then, "mapped_bytes",
                         (now.find("hooks_complete") == nullptr) ? "?"
                         : (now["hooks_complete"] != 0)          ? "all"
                                                                 : "gaps")
               : who + "  does not answer";
}

// The lines below a program's: the first gap of its hooks, and its pairs, those
// with most bytes first.
std::vector<std::string> details(const program &one)
{
    std::vector<std::string> lines;
    std::vector<const pair_row *> pairs;

    if (!one.answers) {
        return lines;
    }
    if (one.now->now.hooks_missing.is_written()) {
        lines.push_back("    hooks: " +
                        printable(one.now->now.hooks_missing.text));
    }
    one.now->each_pair([&](const pair_row &row) { pairs.push_back(&row); });
    std::ranges::stable_sort(pairs, std::greater(), [&](const pair_row *row) {
        return one.now->of(*row)["registered_bytes"];
    });
    for (const pair_row *row : pairs) {
        lines.push_back(pair_line(one, *row));
    }
    return lines;
}

std::string title(const std::vector<const program *> &rows)
{
    const time_t now = time(nullptr);
    tm local{};
    char clock[16]   = "";
    uint64_t lookups = 0, bytes = 0, fallbacks = 0;

    for (const program *each : rows) {
        lookups += each->lookups();
        bytes += each->now->of_process()["mapped_bytes"];
        fallbacks += sum_of(each->now->of_process(), "fallback_operations").sum;
    }
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
    return format("%s  programs: %zu, by lookups in the last second; all: %llu "
                  "lookups/s, %.1f MiB pinned, %llu fallbacks",
                  clock, rows.size(), number{lookups}, in_mib(bytes),
                  number{fallbacks})
        .c_str();
}

// A line for each program, if there is room; details for the first ones.
std::vector<std::string> table(const std::vector<const program *> &rows,
                               size_t height)
{
    std::vector<std::string> lines{
        title(rows),
        "     PID  PROGRAM           LOOKUPS/s  MISSES/s  REGIST/s   EVICT/s  "
        "REGIONS  PINNED MiB  FALLBACKS  HOOKS  MOST BY"};

    for (size_t left = rows.size(); left > 0; --left) {
        const program &one = *rows[rows.size() - left];
        if ((lines.size() + 1 == height) && (left > 1)) {
            lines.push_back("(" + std::to_string(left) + " more programs)");
            break;
        }
        const auto more = details(one);
        lines.push_back(program_line(one));
        if (lines.size() + more.size() + left - 1 <= height) {
            lines.insert(lines.end(), more.begin(), more.end());
        }
    }
    return lines;
}

} // namespace

uint64_t program::lookups() const
{
    const auto all = [](const answer &of) {
        return of->of_process()["hits"] + of->of_process()["misses"];
    };
    return since(all(now), all(before));
}

void print_table(std::vector<const program *> rows)
{
    const terminal screen;
    const bool in_place = screen.has_escapes;
    // The last line is the cursor's.
    const size_t height = in_place ? screen.height - 1 : SIZE_MAX;
    std::string all     = in_place ? "\033[H" : "";

    std::ranges::stable_sort(rows, std::greater(), &program::lookups);
    for (const std::string &each : table(rows, height)) {
        all +=
            in_place ? each.substr(0, screen.width) + "\033[K\n" : each + "\n";
    }
    all += in_place ? "\033[J" : "";
    fwrite(all.data(), 1, all.size(), stdout);
}

} // namespace ucx_ib_dmabuf::info
