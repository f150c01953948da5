// SPDX-License-Identifier: BSD-3-Clause
#include "nics.h"
#include "report.h"
#include <charconv>
#include <cstdio>
#include <exception>
#include <getopt.h>

using namespace ucx_ib_dmabuf::info;

namespace {

constexpr int wrong_usage = 2; // also if the report cannot be written

constexpr char usage[] =
    R"(usage: ucx_dmabuf_info [--json] [--prove] [PROGRAM | FOLDER]...
       ucx_dmabuf_info --watch [--json] [--count N] [PID]...
Says whether UCX can have the RDMA NICs of this machine reach GPU memory, or else
why not and what to do. Checks also the UCX that a PROGRAM would load, or that is
in a FOLDER. Needs neither MPI nor UCX, and changes nothing.

  --prove    let each NIC write and read memory of each GPU, compare the bytes, and
             measure the time; this starts the GPUs
  --watch    print once a second what the plug-in counts in running programs: these
             and their children, or all of this user's
  --count N  end --watch after N times
  --json     print JSON; docs/info.md has the schema
  --help     print this
  --version  print the version

Status: 0 every GPU and NIC can work together, with each UCX that was named; 1 some
cannot, or there was no program to watch; 2 wrong usage, or the output cannot be
written; 3 there is no GPU or no NIC. NO_COLOR switches colours off.
)";

// Returns 0 if it is no positive number.
int positive(std::string_view word)
{
    int number       = 0;
    const auto found = std::from_chars(word.begin(), word.end(), number);
    return (found.ptr == word.end()) ? std::max(number, 0) : 0;
}

int refuse(const std::string &rule)
{
    fprintf(stderr, "ucx_dmabuf_info: %s; see --help\n", rule.c_str());
    return wrong_usage;
}

// These return the exit status.
int watch_programs(const std::vector<std::string> &words, int rounds,
                   bool as_json)
{
    std::vector<int> pids;

    for (const std::string &word : words) {
        if (pids.emplace_back(positive(word)) == 0) {
            return refuse("--watch takes numbers of processes, not '" + word +
                          "'");
        }
    }
    return watch(pids, rounds, as_json);
}

int report_machine(const std::vector<std::string> &words, bool proves,
                   bool as_json)
{
    json report{{"schema", 1},
                {"version", INFO_VERSION},
                {"status", 0},
                {"machine", make_part("machine")},
                {"environment", make_part("environment")},
                {"gpus", json::array()},
                {"nics", json::array()},
                {"copies", json::array()},
                {"pairs", json::array()}};

    check_machine(&report["machine"]);
    check_environment(&report["environment"]);
    check_gpus(&report);
    {
        auto nics = check_nics(&report);
        check_pairs(&report);
        if (proves) {
            prove_pairs(nics, &report);
        }
    }
    for (const std::string &each : words) {
        check_instances(each, &report["copies"]);
    }
    const int status = status_of(report);
    report["status"] = status;
    if (as_json) {
        puts(text_of(report, 1).c_str());
    } else {
        print_text(report);
        if (!proves && (status == 0)) {
            puts("\nNothing was sent yet: ucx_dmabuf_info --prove does that.");
        }
    }
    return status;
}

int run(int argc, char **argv)
{
    int as_json = 0, proves = 0, watches = 0;
    int rounds           = 0; // without end
    const option known[] = {{"count", required_argument, nullptr, 'c'},
                            {"help", no_argument, nullptr, 'h'},
                            {"json", no_argument, &as_json, 1},
                            {"prove", no_argument, &proves, 1},
                            {"root", required_argument, nullptr, 'r'},
                            {"version", no_argument, nullptr, 'v'},
                            {"watch", no_argument, &watches, 1},
                            {}};

    for (int found = 0; found != -1;) {
        found = getopt_long(argc, argv, "h", known, nullptr);
        switch (found) {
        case 'c':
            rounds = positive(optarg);
            if (rounds == 0) {
                return refuse("--count takes a number from 1 to 2147483647, "
                              "not '" +
                              std::string(optarg) + "'");
            }
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'r':
            root = optarg;
            break;
        case 'v':
            puts("ucx_dmabuf_info " INFO_VERSION);
            return 0;
        case '?':
            fputs(usage, stderr);
            return wrong_usage;
        }
    }
    const std::vector<std::string> words(argv + optind, argv + argc);
    if ((rounds != 0) && (watches == 0)) {
        return refuse("--count needs --watch");
    }
    if ((proves != 0) && (watches != 0)) {
        return refuse("--prove and --watch exclude each other");
    }
    return (watches != 0) ? watch_programs(words, rounds, as_json != 0)
                          : report_machine(words, proves != 0, as_json != 0);
}

} // namespace

int main(int argc, char **argv)
try {
    const int status = run(argc, argv);
    if ((fflush(stdout) != 0) || (ferror(stdout) != 0)) {
        perror("ucx_dmabuf_info: standard output");
        return wrong_usage;
    }
    return status;
} catch (const std::exception &error) {
    fprintf(stderr, "ucx_dmabuf_info: %s\n", error.what());
    return wrong_usage;
}
