// SPDX-License-Identifier: BSD-3-Clause
//
// Reports whether NICs can reach the memory of GPUs here. Changes nothing.
#include "look.h"
#include "watch.h"
#include <charconv>
#include <climits>
#include <clocale>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <getopt.h>
#include <langinfo.h>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf::info;

namespace {

constexpr int wrong_usage = 2; // also if the report cannot be written

struct options {
    bool json       = false;
    bool prove      = false;
    bool watch      = false;
    unsigned rounds = 0;
    std::vector<std::string> of{}; // programs, folders or PIDs
    std::string root{};            // for tests: the root of /proc and /sys
};

void usage(FILE *to)
{
    fputs(R"(usage: ucx_dmabuf_info [--json] [--prove] [PROGRAM | FOLDER]...
       ucx_dmabuf_info --watch [--json] [--count N] [PID]...
Looks at each layer between the GPUs and the RDMA NICs of this machine, and says
whether UCX can have the NICs reach GPU memory with ucx-ib-dmabuf, or else why
not and what to do. Needs neither MPI nor UCX, and changes nothing.
Of a PROGRAM it also looks at the copies of UCX that it would load, of a FOLDER
at those that are in it.

  --prove    also has each NIC write and read memory of each GPU, looks at the
             bytes, and says how long it takes; GPUs come into use for that
  --watch    once a second what the plug-in counts in running programs: these and
             what they started, or all of this user's; --count N times, else until
             it is interrupted
  --json     for programs; docs/info.md has the schema
  --help, --version

Status: 0 every GPU and NIC can work together, with each of these UCX, 1 some cannot,
or there was no program to watch, 2 wrong usage, or what it says cannot be
written, 3 there is no GPU or no NIC. NO_COLOR switches colours off.
)",
          to);
}

template <class Number>
bool is_number(std::string_view word, Number *out)
{
    const auto end   = word.data() + word.size();
    const auto found = std::from_chars(word.data(), end, *out);

    return (found.ec == std::errc()) && (found.ptr == end);
}

int refuse(const char *rule, const char *found)
{
    fprintf(stderr, "ucx_dmabuf_info: %s, not '%s'; see --help\n", rule, found);
    return wrong_usage;
}

// Returns the exit status, or -1 to go on.
int parse(int argc, char **argv, options *out)
{
    constexpr option known[] = {{"count", required_argument, nullptr, 'c'},
                                {"help", no_argument, nullptr, 'h'},
                                {"json", no_argument, nullptr, 'j'},
                                {"prove", no_argument, nullptr, 'p'},
                                {"root", required_argument, nullptr, 'r'},
                                {"version", no_argument, nullptr, 'v'},
                                {"watch", no_argument, nullptr, 'w'},
                                {}};

    for (;;) {
        switch (getopt_long(argc, argv, "h", known, nullptr)) {
        case -1:
            out->of.assign(argv + optind, argv + argc);
            return -1;
        case 'c':
            if (!is_number(optarg, &out->rounds) || (out->rounds == 0)) {
                return refuse("--count takes a number from 1 to 4294967295",
                              optarg);
            }
            break;
        case 'h':
            usage(stdout);
            return 0;
        case 'j':
            out->json = true;
            break;
        case 'p':
            out->prove = true;
            break;
        case 'r':
            out->root = optarg;
            break;
        case 'v':
            printf("ucx_dmabuf_info %s\n", version);
            return 0;
        case 'w':
            out->watch = true;
            break;
        default:
            usage(stderr);
            return wrong_usage;
        }
    }
}

// Whether the output is a terminal that supports escape sequences.
bool is_terminal()
{
    const char *terminal = getenv("TERM");

    return isatty(STDOUT_FILENO) && (terminal != nullptr) &&
           (std::string_view(terminal) != "dumb");
}

bool wants_colour()
{
    const char *no_colour = getenv("NO_COLOR");

    return is_terminal() && ((no_colour == nullptr) || (*no_colour == '\0'));
}

// Returns the width of a line.
int width()
{
    winsize window{};

    return ((ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0) &&
            (window.ws_col > 40))
               ? window.ws_col
               : INT_MAX;
}

// Returns the exit status.
int watch_programs(const options &wanted)
{
    watch_options how;

    for (const std::string &word : wanted.of) {
        int pid = 0;
        if (!is_number(word, &pid) || (pid <= 0)) {
            return refuse("--watch takes numbers of processes", word.c_str());
        }
        how.pids.push_back(pid);
    }
    how.rounds   = wanted.rounds;
    how.json     = wanted.json;
    how.in_place = is_terminal();
    setlocale(LC_CTYPE, "");
    how.unicode = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
    return watch(how, stdout);
}

// Returns the exit status.
int look(const options &wanted)
{
    const tree files(wanted.root);
    report found;
    look_at_machine(files, &found);
    look_at_environment(&found);
    look_at_gpus(files, &found);
    look_at_nics(files, &found);
    look_at_pairs(files, &found);
    if (wanted.prove) {
        prove_pairs(&found);
    }
    for (const std::string &each : wanted.of) {
        look_at_copies(each, &found);
    }
    wanted.json ? print_json(found, stdout)
                : print_text(found, wants_colour(), width(), stdout);
    if (!wanted.json && !wanted.prove && (found.status() == 0)) {
        puts("\nNothing was sent yet: ucx_dmabuf_info --prove does that.");
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

// Turns lost output into a failure.
int unless_lost(int status)
{
    if ((fflush(stdout) != 0) || (ferror(stdout) != 0)) {
        perror("ucx_dmabuf_info: standard output");
        return wrong_usage;
    }
    return status;
}

} // namespace

int main(int argc, char **argv)
try {
    options wanted;

    keep_standard_numbers();
    const int ended = parse(argc, argv, &wanted);
    return unless_lost((ended >= 0)   ? ended
                       : wanted.watch ? watch_programs(wanted)
                                      : look(wanted));
} catch (const std::exception &error) {
    fprintf(stderr, "ucx_dmabuf_info: %s\n", error.what());
    return wrong_usage;
}
