// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <uct/ib_dmabuf/report.h>
#include <vector>

namespace ucx_ib_dmabuf::info {

// The report and its parts, as docs/info.md describes them.
using json = nlohmann::ordered_json;

// warning: it works, but slower or less reliably than it could.
enum state : uint8_t { ok, warning, fails };
state state_of(const json &part);
void raise_state(json *part, state least);

// The machine, a GPU, a NIC or a UCX. Its state is the worst of its checks.
json make_part(const std::string &name);
void add(json *part, state how, const char *what, const std::string &found,
         const std::string &cause = {}, const std::string &remedy = {});

struct fault {
    bool applies;
    state how;
    std::string cause, remedy;
    std::string found{}; // if it is not the property's
};
// Adds the first fault that applies; if none does, the property is ok.
void diagnose(json *part, const char *what, const std::string &found,
              const std::vector<fault> &faults);

// 0: every pair can work, with every UCX that was named; 1: a pair or a UCX
// cannot; 3: there is no pair.
int status_of(const json &report);
// For people: parts, their checks, and a matrix of GPUs and NICs.
void print_text(const json &report);
// As UTF-8, whatever bytes names have.
std::string text_of(const json &made, int indent = -1);

// Each of these checks a layer and adds the results to the report, without
// changing the machine. Not thread-safe. May throw std::bad_alloc.

// machine.cc: the kernel, its settings, limits of this process.
void check_machine(json *out);
// How programs that are started here load the plug-in.
void check_environment(json *out);
// gpus.cc: the CUDA driver and its GPUs.
void check_gpus(json *report);
// nics.cc: libibverbs and its devices. Returns them, in the report's order.
class open_device;
std::deque<open_device> check_nics(json *report);
// pairs.cc: the distances between GPUs and NICs. After all others.
void check_pairs(json *report);
// Whether pairs work, by RDMA. After check_pairs().
void prove_pairs(std::deque<open_device> &nics, json *report);
// instances.cc: the UCX that a program would load, or that a folder contains.
void check_instances(const std::string &path, json *copies);

// Prints the counters of these processes and their descendants, or else of all
// accessible ones, once a second. 0 rounds last until a signal, or until no
// named one is left. Returns the exit status.
int watch(const std::vector<int> &pids, int rounds, bool as_json);

std::string variable(const char *name); // of the environment, or ""
// "12.5 GiB"
std::string size_text(uint64_t bytes);
// The parts between any of these characters, without empty ones.
std::vector<std::string> split(std::string list, const char *between);
// Replaces the characters that a terminal interprets, and others than ASCII.
std::string printable(std::string_view text);
// Whether the standard output is a terminal that knows escape sequences.
bool has_escapes();

// The root of /proc, /sys and /dev; tests have another one.
inline std::string root;
std::string file(const std::string &path); // its bytes, or ""
// The first line that has this beginning, without it and the newline, or "".
std::string line_of(const std::string &path, std::string_view begin = "");
std::vector<std::string> list(const std::string &folder);
// Adds a device's "place" in /sys and its "numa" node; takes its folder, which
// may be a link. Adds nothing for a NIC in software.
void add_place(const std::string &device, json *part);

} // namespace ucx_ib_dmabuf::info
