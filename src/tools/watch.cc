// SPDX-License-Identifier: BSD-3-Clause
//
// What running programs count, from the page that each one shows
// (metrics/live_page.h).
#include "watch.h"
#include "tree.h"
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <map>
#include <uct/ib_dmabuf/metrics/live_reader.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

constexpr unsigned patience = 200; // milliseconds for an answer

// The number behind a name, from a place on; 0 if there is none.
uint64_t number(std::string_view json, std::string_view name, size_t from = 0)
{
    const std::string key = "\"" + std::string(name) + "\": ";
    const size_t at       = json.find(key, from);
    uint64_t value        = 0;

    if (at != std::string_view::npos) {
        std::from_chars(json.data() + at + key.size(),
                        json.data() + json.size(), value);
    }
    return value;
}

std::string word(std::string_view json, std::string_view name, size_t from)
{
    const std::string key = "\"" + std::string(name) + "\": \"";
    const size_t at       = json.find(key, from);

    if (at == std::string_view::npos) {
        return {};
    }
    const size_t begin = at + key.size();
    return std::string(json.substr(begin, json.find('"', begin) - begin));
}

struct counts {
    uint64_t lookups = 0, misses = 0, registrations = 0, evictions = 0;
    uint64_t regions = 0, bytes = 0;
    uint64_t fallbacks = 0;
    std::string most{}; // of these: way and cause
};

counts counts_of(std::string_view json)
{
    counts now;
    uint64_t most = 0;

    now.misses        = number(json, "misses");
    now.lookups       = number(json, "hits") + now.misses;
    now.registrations = number(json, "registrations");
    now.evictions     = number(json, "evictions");
    now.regions       = number(json, "regions");
    now.bytes         = number(json, "mapped_bytes");
    for (size_t at = json.find("\"way\""); at != std::string_view::npos;
         at        = json.find("\"way\"", at + 1)) {
        const uint64_t operations = number(json, "operations", at);
        now.fallbacks += operations;
        if (operations > most) {
            most     = operations;
            now.most = word(json, "way", at) + ": " + word(json, "cause", at);
        }
    }
    return now;
}

struct program {
    std::unique_ptr<live_reader> page;
    std::string name;
    std::string json{}; // its last answer
    counts now{}, before{};
    bool is_new = true; // no second has passed yet

    uint64_t done() const { return now.lookups - before.lookups; }
};

using programs = std::map<int, program>;

std::vector<int> all_pids(const tree &files)
{
    std::vector<int> found;

    for (const std::string &name : files.list("/proc")) {
        int pid = 0;
        std::from_chars(name.data(), name.data() + name.size(), pid);
        if (pid > 0) {
            found.push_back(pid);
        }
    }
    return found;
}

// Any user's: it may have any bytes, of which a terminal does what some say.
std::string name_of(const tree &files, int pid)
{
    std::string name =
        files.first_line("/proc/" + std::to_string(pid) + "/comm");

    std::ranges::replace_if(
        name, [](char byte) { return (byte < ' ') || (byte > '~'); }, '?');
    return name;
}

void find_new(const watch_options &how, const tree &files, programs *all)
{
    for (const int pid : how.pids.empty() ? all_pids(files) : how.pids) {
        if (all->contains(pid)) {
            continue;
        }
        auto page = live_reader::open(pid);
        if (page) {
            all->emplace(pid, program{std::move(page), name_of(files, pid)});
        } else if (!how.pids.empty()) {
            fprintf(stderr, "ucx_dmabuf_info: %d: %s\n", pid,
                    (errno == ENODATA)
                        ? "no plug-in is loaded there, or it saw no GPU"
                    : (errno == EPROTO) ? "its plug-in is of another version"
                                        : strerror(errno));
        }
    }
}

// Who is gone does not answer, nor who is stopped.
void ask_all(programs *all)
{
    std::erase_if(*all, [](auto &each) {
        const std::string folder = "/proc/" + std::to_string(each.first);
        return access(folder.c_str(), F_OK) != 0;
    });
    for (auto &[pid, one] : *all) {
        one.is_new = one.json.empty();
        one.before = one.now;
        one.json   = one.page->ask(patience);
        if (!one.json.empty()) {
            one.now = counts_of(one.json);
        }
        if (one.is_new) {
            one.before = one.now;
        }
    }
}

void print_row(int pid, const program &one, FILE *to)
{
    fprintf(to, "%8d  %-15.15s", pid, one.name.c_str());
    if (one.json.empty()) {
        fputs("  does not answer\n", to);
        return;
    }
    const counts &now = one.now, &then = one.before;
    fprintf(
        to, "  %10llu  %8llu  %8llu  %8llu  %7llu  %10.1f  %9llu  %s\n",
        static_cast<unsigned long long>(one.done()),
        static_cast<unsigned long long>(now.misses - then.misses),
        static_cast<unsigned long long>(now.registrations - then.registrations),
        static_cast<unsigned long long>(now.evictions - then.evictions),
        static_cast<unsigned long long>(now.regions),
        static_cast<double>(now.bytes) / (1 << 20),
        static_cast<unsigned long long>(now.fallbacks), now.most.c_str());
}

void print_table(const programs &all, bool in_place, FILE *to)
{
    std::vector<programs::const_iterator> rows;
    const time_t now = time(nullptr);
    tm local{};
    char clock[16] = "";

    for (auto i = all.begin(); i != all.end(); ++i) {
        rows.push_back(i);
    }
    std::ranges::stable_sort(rows, std::greater(), [](const auto &each) {
        return each->second.done();
    });
    strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &local));
    fprintf(to, "%s%s  programs: %zu, by lookups in the last second\n",
            in_place ? "\033[H\033[J" : "", clock, rows.size());
    fprintf(to, "%8s  %-15s  %10s  %8s  %8s  %8s  %7s  %10s  %9s  %s\n", "PID",
            "PROGRAM", "LOOKUPS/s", "MISSES/s", "REGIST/s", "EVICT/s",
            "REGIONS", "PINNED MiB", "FALLBACKS", "MOST BY");
    for (const auto &each : rows) {
        print_row(each->first, each->second, to);
    }
}

} // namespace

int watch(const watch_options &how, FILE *to)
{
    const tree files;
    programs all;
    bool was_any = false;

    for (unsigned round = 0; (how.rounds == 0) || (round < how.rounds);
         ++round) {
        if ((round == 0) || how.pids.empty()) {
            find_new(how, files, &all);
        }
        ask_all(&all);
        was_any |= !all.empty();
        if (all.empty() && !how.pids.empty()) {
            break;
        }
        if (how.json) {
            for (const auto &each : all) {
                fputs(each.second.json.c_str(), to);
            }
        } else {
            print_table(all, how.in_place, to);
        }
        if (fflush(to) != 0) {
            break; // nobody reads it any more
        }
        if (round + 1 != how.rounds) {
            sleep(1);
        }
    }
    return was_any ? 0 : 1;
}

} // namespace ucx_ib_dmabuf::info
