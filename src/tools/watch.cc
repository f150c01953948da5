// SPDX-License-Identifier: BSD-3-Clause
//
// Prints the counters of running programs, from the page that each one
// publishes (stats/live_page.h).
#include "watch.h"
#include "tree.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <set>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <uct/ib_dmabuf/stats/render.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

constexpr unsigned patience = 200; // milliseconds for all answers
// Examining each process of a machine takes a good part of a second.
constexpr unsigned rounds_of_all = 10;

struct program {
    std::unique_ptr<live_reader> page;
    shown_program shown{};
    shown_program::answer next = std::make_unique<described_counters>();
    bool is_new                = true;  // no second has passed yet
    bool waited                = false; // for its answer
};

using programs = std::map<int, program>;

std::string folder_of(int pid)
{
    return "/proc/" + std::to_string(pid);
}

std::set<int> all_pids(const tree &files)
{
    std::set<int> found;

    for (const std::string &name : files.list("/proc")) {
        int pid = 0;
        std::from_chars(name.data(), name.data() + name.size(), pid);
        if (pid > 0) {
            found.insert(pid);
        }
    }
    return found;
}

// Parses behind the name, which may contain anything, even a newline.
int parent_of(int pid, const tree &files)
{
    const std::string stat = files.all_of(folder_of(pid) + "/stat");
    const size_t at        = stat.rfind(") ");
    int parent             = 0;

    if ((at != stat.npos) && (at + 4 < stat.size())) {
        std::from_chars(stat.data() + at + 4, stat.data() + stat.size(),
                        parent);
    }
    return parent;
}

// Adds all descendants, as those of mpirun.
std::set<int> with_children(const std::vector<int> &pids, const tree &files)
{
    std::set<int> found(pids.begin(), pids.end());
    std::map<int, std::vector<int>> children;
    std::vector<int> left = pids;

    for (const int each : all_pids(files)) {
        children[parent_of(each, files)].push_back(each);
    }
    while (!left.empty()) {
        const int parent = left.back();
        left.pop_back();
        for (const int child : children[parent]) {
            if (found.insert(child).second) {
                left.push_back(child);
            }
        }
    }
    return found;
}

bool open_page(int pid, const tree &files, program *one)
{
    one->page = live_reader::open(pid);
    if (!one->page) {
        return false;
    }
    one->shown.pid  = pid;
    one->shown.name = files.first_line(folder_of(pid) + "/comm");
    return true;
}

class watcher {
public:
    explicit watcher(const watch_options &how) : how_(how) {}

    // Examines all processes in some rounds, and only new ones in the others.
    void find_new(unsigned round)
    {
        std::set<int> there = how_.pids.empty()
                                  ? all_pids(files_)
                                  : with_children(how_.pids, files_);
        for (const int pid : there) {
            const bool looked = how_.pids.empty() &&
                                (round % rounds_of_all != 0) &&
                                looked_into_.contains(pid);
            program one;
            if (!looked && !all_.contains(pid) &&
                open_page(pid, files_, &one)) {
                all_.emplace(pid, std::move(one));
            }
        }
        looked_into_ = std::move(there);
    }

    // Explains why a named process has no page, unless a descendant has one.
    void say_why_not() const
    {
        for (const int pid : how_.pids) {
            const auto shows = [&](int each) { return all_.contains(each); };
            if (std::ranges::any_of(with_children({pid}, files_), shows) ||
                live_reader::open(pid)) {
                continue;
            }
            fprintf(stderr, "ucx_dmabuf_info: %d: %s\n", pid,
                    (errno == ENODATA)
                        ? "no plug-in is loaded there, or it saw no GPU"
                    : (errno == EPROTO) ? "its plug-in is of another version"
                                        : strerror(errno));
        }
    }

    // Sends all requests before it waits for the first answer.
    void ask()
    {
        for (auto &[pid, one] : all_) {
            one.waited = true;
            one.page->request();
        }
        for (unsigned waited = 0; (take_answers() != 0) && (waited < patience);
             ++waited) {
            usleep(1000);
        }
        // Not answered: it is stopped or gone, or now runs another program.
        for (auto at = all_.begin(); at != all_.end();) {
            program &one      = at->second;
            one.shown.answers = !one.waited;
            at = (one.waited && !open_page(at->first, files_, &one))
                     ? all_.erase(at)
                     : std::next(at);
        }
    }

    // Returns whether the output could be written.
    bool print(FILE *to) const
    {
        std::vector<const shown_program *> rows;
        std::vector<char> memory(text_max);

        for (const auto &[pid, one] : all_) {
            if (how_.json && one.shown.answers) {
                const auto line = render_json(*one.shown.now, pid, memory);
                fwrite(line.data(), 1, line.size(), to);
            }
            rows.push_back(&one.shown);
        }
        if (!how_.json) {
            print_table(rows, how_, to);
        }
        return fflush(to) == 0;
    }

    bool empty() const { return all_.empty(); }

private:
    // Returns how many answers are missing.
    size_t take_answers()
    {
        size_t lacking = 0;

        for (auto &[pid, one] : all_) {
            if (one.waited && one.page->answer(one.next.get())) {
                one.waited = false;
                note(&one);
            }
            lacking += one.waited ? 1 : 0;
        }
        return lacking;
    }
    static void note(program *one)
    {
        shown_program &shown = one->shown;

        std::swap(shown.before, shown.now);
        std::swap(shown.now, one->next);
        if (one->is_new) {
            *shown.before = *shown.now;
            one->is_new   = false;
            return;
        }
        shown.history.push_back(shown.lookups());
        if (shown.history.size() > history_length) {
            shown.history.pop_front();
        }
    }

    const watch_options &how_;
    const tree files_;
    programs all_;
    std::set<int> looked_into_;
};

} // namespace

int watch(const watch_options &how, FILE *to)
{
    constexpr uint64_t second = 1'000'000'000;
    watcher all(how);
    bool was_any = false;

    for (unsigned round = 0; (how.rounds == 0) || (round < how.rounds);
         ++round) {
        const uint64_t begin = nanoseconds_now();
        all.find_new(round);
        if (round == 0) {
            all.say_why_not();
        }
        all.ask();
        was_any |= !all.empty();
        if (all.empty() && !how.pids.empty()) {
            break;
        }
        if (!all.print(to)) {
            break; // the reader has gone
        }
        const uint64_t took = nanoseconds_now() - begin;
        if ((round + 1 != how.rounds) && (took < second)) {
            usleep(static_cast<useconds_t>((second - took) / 1000));
        }
    }
    return was_any ? 0 : 1;
}

} // namespace ucx_ib_dmabuf::info
