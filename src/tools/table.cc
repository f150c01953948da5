// SPDX-License-Identifier: BSD-3-Clause
//
// The counters of running programs as a table: a line for each program, and
// below it a line for each of its pairs of NIC and GPU.
#include "watch.h"
#include <algorithm>
#include <array>
#include <ctime>
#include <functional>
#include <sys/ioctl.h>

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

// Increase since the last round. A smaller count began anew, or is wrong.
uint64_t since(uint64_t now, uint64_t before)
{
    return (now >= before) ? now - before : now;
}

template <typename... Values>
std::string line(const char *pattern, Values... values)
{
    std::array<char, 512> made{};
    snprintf(made.data(), made.size(), pattern, values...);
    return made.data();
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

// The columns of both programs and pairs; only programs count lookups.
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

    return line(
        "%-25.25s  %10.10s  %8.8s  %8llu  %8llu  %7llu  %10.1f  %9llu  "
        "%-5.5s  %.60s",
        who.c_str(), lookups.c_str(), misses.c_str(), changed("registrations"),
        changed("evictions"), number{now["regions"]},
        static_cast<double>(now[bytes]) / (1 << 20), number{fallbacks.sum},
        hooks, (path.most + (both ? "; " : "") + fallbacks.most).c_str());
}

// Rows never move, so a pair has the same index in both answers.
std::string pair_line(const shown_program &one, const pair_row &row)
{
    const pair_row &before = one.before->now.pairs[&row - one.now->now.pairs];
    const std::string gpu =
        "GPU " +
        ((row.gpu_number() < 0) ? "?" : std::to_string(row.gpu_number()));

    return columns("    " +
                       printable(row.nic_name()).substr(0, 20 - gpu.size()) +
                       " " + gpu,
                   "-", "-", one.now->of(row), one.before->of(before),
                   "registered_bytes", "");
}

// The last numbers as bars, the largest of them as high as a line.
std::string history_line(const std::deque<uint64_t> &history, bool unicode)
{
    static constexpr std::array<const char *, 8> blocks{
        "\u2581", "\u2582", "\u2583", "\u2584",
        "\u2585", "\u2586", "\u2587", "\u2588"};
    static constexpr std::array<const char *, 8> ascii{"_", ".", ":", "-",
                                                       "=", "+", "*", "#"};
    const uint64_t most = std::ranges::max(history);
    std::string all     = "    lookups/s ";

    for (const uint64_t each : history) {
        const auto height =
            (most == 0) ? size_t{0}
                        : static_cast<size_t>(static_cast<double>(each) * 7 /
                                              static_cast<double>(most));
        all += (unicode ? blocks : ascii)[std::min<size_t>(height, 7)];
    }
    return all + line(" up to %llu", number{most});
}

std::string program_line(const shown_program &one)
{
    const std::string who =
        line("%8d  %-15.15s", one.pid, printable(one.name).c_str());
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

std::vector<std::string> below(const shown_program &one,
                               const watch_options &how)
{
    std::vector<std::string> lines;

    if (!one.answers) {
        return lines;
    }
    if (how.in_place && !one.history.empty()) {
        lines.push_back(history_line(one.history, how.unicode));
    }
    if (one.now->now.hooks_missing.is_written()) {
        lines.push_back("    hooks: " +
                        printable(one.now->now.hooks_missing.text));
    }
    std::vector<const pair_row *> pairs;
    one.now->each_pair([&](const pair_row &row) { pairs.push_back(&row); });
    std::ranges::stable_sort(pairs, std::greater(), [&](const pair_row *row) {
        return one.now->of(*row)["registered_bytes"];
    });
    for (const pair_row *row : pairs) {
        lines.push_back(pair_line(one, *row));
    }
    return lines;
}

std::string title(const std::vector<const shown_program *> &rows)
{
    const time_t now = time(nullptr);
    tm local{};
    char clock[16]   = "";
    uint64_t lookups = 0, bytes = 0, fallbacks = 0;

    for (const shown_program *each : rows) {
        lookups += each->lookups();
        bytes += each->now->of_process()["mapped_bytes"];
        fallbacks += sum_of(each->now->of_process(), "fallback_operations").sum;
    }
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
    return line("%s  programs: %zu, by lookups in the last second; all: %llu "
                "lookups/s, %.1f MiB pinned, %llu fallbacks",
                clock, rows.size(), number{lookups},
                static_cast<double>(bytes) / (1 << 20), number{fallbacks});
}

// Returns at most `width` characters, which may have several bytes each.
std::string cut(const std::string &text, size_t width)
{
    size_t seen = 0, at = 0;

    for (; at < text.size(); ++at) {
        const bool begins =
            (static_cast<unsigned char>(text[at]) & 0xc0) != 0x80;
        if (begins && (++seen > width)) {
            break;
        }
    }
    return text.substr(0, at);
}

// Overwrites the last round, in a single write.
void print_in_place(const std::vector<std::string> &lines, size_t width,
                    FILE *to)
{
    std::string all = "\033[H";

    for (const std::string &each : lines) {
        all += cut(each, width) + "\033[K\n";
    }
    all += "\033[J";
    fwrite(all.data(), 1, all.size(), to);
}

// The size of a terminal in characters; unlimited for any other file.
struct screen {
    size_t width = SIZE_MAX, height = SIZE_MAX;

    screen(FILE *to, bool terminal)
    {
        winsize found{};
        if (terminal && (ioctl(fileno(to), TIOCGWINSZ, &found) == 0) &&
            (found.ws_col > 0) && (found.ws_row > 4)) {
            width  = found.ws_col;
            height = found.ws_row - size_t{1}; // the last line is the cursor's
        }
    }
};

} // namespace

uint64_t shown_program::lookups() const
{
    const auto all = [](const metric_view &of) {
        return of["hits"] + of["misses"];
    };
    return since(all(now->of_process()), all(before->of_process()));
}

void print_table(std::vector<const shown_program *> rows,
                 const watch_options &how, FILE *to)
{
    const screen size(to, how.in_place);
    std::vector<std::string> lines{title(rows)};

    std::ranges::stable_sort(rows, std::greater(), &shown_program::lookups);
    lines.push_back(
        line("%8s  %-15s  %10s  %8s  %8s  %8s  %7s  %10s  %9s  %-5s  %s", "PID",
             "PROGRAM", "LOOKUPS/s", "MISSES/s", "REGIST/s", "EVICT/s",
             "REGIONS", "PINNED MiB", "FALLBACKS", "HOOKS", "MOST BY"));
    // A line for each program, if there is room; details for the first ones.
    for (size_t i = 0; i < rows.size(); ++i) {
        if ((lines.size() + 1 == size.height) && (i + 1 < rows.size())) {
            lines.push_back(line("(%zu more programs)", rows.size() - i));
            break;
        }
        lines.push_back(program_line(*rows[i]));
        const std::vector<std::string> more = below(*rows[i], how);
        if (lines.size() + more.size() + rows.size() - i - 1 <= size.height) {
            lines.insert(lines.end(), more.begin(), more.end());
        }
    }
    if (how.in_place) {
        print_in_place(lines, size.width, to);
        return;
    }
    for (const std::string &each : lines) {
        fprintf(to, "%s\n", each.c_str());
    }
}

} // namespace ucx_ib_dmabuf::info
