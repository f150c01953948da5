// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the counters of running programs, from the page that each one
// publishes (stats/live_page.h).
#include "watch.h"
#include "tree.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <uct/ib_dmabuf/stats/render.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

constexpr unsigned patience = 200; // milliseconds for all answers
// Examining each process of a machine takes a good part of a second.
constexpr unsigned rounds_of_all = 10;

std::string folder_of(int pid)
{
    return "/proc/" + std::to_string(pid);
}

// All processes and their parents. In a process's line the parent follows the
// name, which may contain anything, even a newline.
std::map<int, int> all_parents()
{
    const tree files;
    std::map<int, int> parents;

    for (const std::string &name : files.list("/proc")) {
        if (const int pid = atoi(name.c_str()); pid > 0) {
            const std::string stat = files.read(folder_of(pid) + "/stat");
            const size_t at        = std::min(stat.rfind(") "), stat.size());
            int parent             = 0;
            sscanf(stat.c_str() + at, ") %*c %d", &parent);
            parents[pid] = parent;
        }
    }
    return parents;
}

// Returns these processes and all their descendants, as those of mpirun, or all
// processes if none is named.
std::set<int> family(const std::vector<int> &pids)
{
    const std::map<int, int> parents = all_parents();
    std::set<int> found(pids.begin(), pids.end());

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
            one.answers = false;
            one.page->request();
        }
        for (unsigned waited = 0; !take_answers() && (waited < patience);
             ++waited) {
            usleep(1000);
        }
        // Not answered: it is stopped or gone, or now runs another program.
        std::erase_if(all_, [&](auto &each) {
            return !each.second.answers && !open_page(each.first);
        });
    }

    // Returns whether the output could be written.
    bool print(bool json) const
    {
        std::vector<const program *> rows;
        std::vector<char> memory(text_max);

        for (const auto &[pid, one] : all_) {
            if (json && one.answers) {
                const auto line = render_json(*one.now, pid, memory);
                fwrite(line.data(), 1, line.size(), stdout);
            }
            rows.push_back(&one);
        }
        if (!json) {
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

    // Returns whether all have answered.
    bool take_answers()
    {
        bool all = true;

        for (auto &[pid, one] : all_) {
            if (!one.answers && one.page->answer(next_.get())) {
                const bool is_first = one.now->process_count == 0;
                std::swap(one.before, one.now);
                std::swap(one.now, next_);
                if (is_first) {
                    *one.before = *one.now;
                }
                one.answers = true;
            }
            all &= one.answers;
        }
        return all;
    }

    const std::vector<int> &pids_;
    std::map<int, program> all_;
    program::answer next_ = std::make_unique<described_counters>();
};

} // namespace

int watch(const std::vector<int> &pids, unsigned rounds, bool json)
{
    constexpr uint64_t second = 1'000'000'000;
    watcher all(pids);
    bool was_any = false;

    for (unsigned round = 0; (rounds == 0) || (round < rounds); ++round) {
        const uint64_t begin = nanoseconds_now();
        if (!pids.empty() || (round % rounds_of_all == 0)) {
            all.find_new();
        }
        if (round == 0) {
            all.say_why_not();
        }
        all.ask();
        was_any |= !all.empty();
        if ((all.empty() && !pids.empty()) || !all.print(json)) {
            break; // the programs have ended, or the reader
        }
        const uint64_t took = nanoseconds_now() - begin;
        if ((round + 1 != rounds) && (took < second)) {
            usleep(static_cast<useconds_t>((second - took) / 1000));
        }
    }
    return was_any ? 0 : 1;
}

} // namespace ucx_ib_dmabuf::info
