// SPDX-License-Identifier: BSD-3-Clause
//
// Reports whether NICs can reach the memory of GPUs here. Changes nothing.
#include "nics.h"
#include "report.h"
#include <charconv>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <getopt.h>
#include <unistd.h>

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
             and their children, or all of this user's; --count N times
  --json     print JSON; docs/info.md has the schema
  --help, --version

Status: 0 every GPU and NIC can work together, with each UCX that was named; 1 some
cannot, or there was no program to watch; 2 wrong usage, or the output cannot be
written; 3 there is no GPU or no NIC. NO_COLOR switches colours off.
)";

struct options {
    int json = 0, prove = 0, watch = 0; // 1: given
    unsigned rounds = 0;                // of --watch; 0: without end
    std::vector<std::string> of{};      // programs, folders or PIDs
    std::string root{};                 // for tests: the root of /proc and /sys
};

template <class Number>
bool is_positive(std::string_view word, Number *out)
{
    const auto end   = word.data() + word.size();
    const auto found = std::from_chars(word.data(), end, *out);

    return (found.ec == std::errc()) && (found.ptr == end) && (*out > 0);
}

int refuse(const std::string &rule)
{
    fprintf(stderr, "ucx_dmabuf_info: %s; see --help\n", rule.c_str());
    return wrong_usage;
}

// Returns the exit status, or -1 to go on.
int parse(int argc, char **argv, options *out)
{
    const option known[] = {{"count", required_argument, nullptr, 'c'},
                            {"help", no_argument, nullptr, 'h'},
                            {"json", no_argument, &out->json, 1},
                            {"prove", no_argument, &out->prove, 1},
                            {"root", required_argument, nullptr, 'r'},
                            {"version", no_argument, nullptr, 'v'},
                            {"watch", no_argument, &out->watch, 1},
                            {}};

    for (int found = 0; found != -1;) {
        found = getopt_long(argc, argv, "h", known, nullptr);
        switch (found) {
        case 'c':
            if (!is_positive(optarg, &out->rounds)) {
                return refuse("--count takes a number from 1 to 4294967295, "
                              "not '" +
                              std::string(optarg) + "'");
            }
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'r':
            out->root = optarg;
            break;
        case 'v':
            printf("ucx_dmabuf_info %s\n", version);
            return 0;
        case '?':
            fputs(usage, stderr);
            return wrong_usage;
        }
    }
    out->of.assign(argv + optind, argv + argc);
    if ((out->rounds != 0) && (out->watch == 0)) {
        return refuse("--count needs --watch");
    }
    return ((out->prove != 0) && (out->watch != 0))
               ? refuse("--prove and --watch exclude each other")
               : -1;
}

// Returns the exit status.
int watch_programs(const options &wanted)
{
    std::vector<int> pids;

    for (const std::string &word : wanted.of) {
        if (!is_positive(word, &pids.emplace_back())) {
            return refuse("--watch takes numbers of processes, not '" + word +
                          "'");
        }
    }
    return watch(pids, wanted.rounds, wanted.json != 0);
}

// Returns the exit status.
int report_machine(const options &wanted)
{
    const tree files(wanted.root);
    report found;

    check_machine(files, &found.machine);
    check_environment(&found.environment);
    check_gpus(files, &found);
    {
        auto nics = check_nics(files, &found);
        check_pairs(files, &found);
        if (wanted.prove != 0) {
            prove_pairs(nics, &found);
        }
    }
    for (const std::string &each : wanted.of) {
        check_instances(each, &found);
    }
    if (wanted.json != 0) {
        print_json(found);
    } else {
        print_text(found);
        if ((wanted.prove == 0) && (found.status() == 0)) {
            puts("\nNothing was sent yet: ucx_dmabuf_info --prove does that.");
        }
    }
    return found.status();
}

// Opens closed standard descriptors: else a device would get the output.
void keep_standard_numbers()
{
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        if (fcntl(fd, F_GETFD) < 0) {
            // Opened the wrong way round: using it remains an error.
            (void)open("/dev/null", (fd == STDIN_FILENO) ? O_WRONLY : O_RDONLY);
        }
    }
}

} // namespace

int main(int argc, char **argv)
try {
    options wanted;

    keep_standard_numbers();
    int status = parse(argc, argv, &wanted);
    if (status < 0) {
        status = (wanted.watch != 0) ? watch_programs(wanted)
                                     : report_machine(wanted);
    }
    if ((fflush(stdout) != 0) || (ferror(stdout) != 0)) {
        perror("ucx_dmabuf_info: standard output");
        status = wrong_usage;
    }
    return status;
} catch (const std::exception &error) {
    fprintf(stderr, "ucx_dmabuf_info: %s\n", error.what());
    return wrong_usage;
}
