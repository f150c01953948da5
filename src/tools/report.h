// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ucx_ib_dmabuf::info {

std::string variable(const char *name); // of the environment, or ""
// "12.5 GiB"
std::string size_text(uint64_t bytes);
// Returns a list's parts between any of these characters, without empty ones.
std::vector<std::string> split(std::string list, const char *between);

// A device's place; empty and -1 if unknown, as for a NIC in software.
struct pci_place {
    std::string path; // "/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    int numa = -1;
    std::vector<std::string> route{}; // "pci0000:00", "0000:00:01.0", ...
};

// The kernel's files, /proc and /sys; tests have another root.
class tree {
public:
    explicit tree(std::string root = {}) : root_(std::move(root)) {}

    bool has(std::string_view path) const;
    // Empty if the file cannot be read.
    std::string read(std::string_view path) const;
    // The first line that has this beginning, without it and the newline; empty
    // if there is none.
    std::string line(std::string_view path, std::string_view begin = "") const;
    // Names in a folder.
    std::vector<std::string> list(std::string_view path) const;
    // Takes a device's folder, which may be a link.
    pci_place place(std::string_view device) const;

private:
    std::string at(std::string_view path) const
    {
        return root_ + std::string(path);
    }

    const std::string root_;
};

// warning: it works, but slower or less reliably than it could.
enum class state : uint8_t { ok, warning, fails };
using enum state;

constexpr const char *state_names[] = {"ok", "warning", "fails"};

// The result for a single property. Cause and remedy are empty if it is ok.
struct check {
    std::string name;
    state how = ok;
    std::string found;
    std::string cause{};
    std::string remedy{};

    bool operator==(const check &) const = default;
};

// A fault that a property may have.
struct fault {
    bool applies;
    state how;
    std::string cause, remedy;
    std::string found{}; // if it is not the property's
};

// The subject of checks: the machine, a GPU, a NIC, a UCX.
struct part {
    std::string name;
    std::vector<check> checks{};
    pci_place place{};

    void add(state how, std::string what, std::string found,
             std::string cause = {}, std::string remedy = {})
    {
        checks.push_back({std::move(what), how, std::move(found),
                          std::move(cause), std::move(remedy)});
    }
    // The first fault that applies counts; if none does, the property is ok.
    void diagnose(const char *what, const std::string &found,
                  const std::vector<fault> &faults)
    {
        const auto first = std::ranges::find(faults, true, &fault::applies);

        if (first == faults.end()) {
            add(ok, what, found);
        } else {
            add(first->how, what, first->found.empty() ? found : first->found,
                first->cause, first->remedy);
        }
    }
    state worst() const
    {
        const auto most = std::ranges::max_element(checks, {}, &check::how);
        return (most == checks.end()) ? ok : most->how;
    }
};

// A GPU and a NIC, as indices into the report.
struct pair {
    size_t gpu, nic;
    std::string distance; // docs/info.md
    part about;
    state how; // also fails if the machine, the GPU or the NIC does
};

struct report {
    part machine{"machine"};
    part environment{"environment"}; // of programs started in it
    std::vector<part> gpus{}, nics{}, instances{};
    std::vector<pair> pairs{};

    // 0: every pair can work, with every UCX that was named; 1: a pair or a UCX
    // cannot; 3: there is no pair.
    int status() const
    {
        const auto failed = [](state how) { return how == fails; };
        const bool any    = std::ranges::any_of(pairs, failed, &pair::how) ||
                         std::ranges::any_of(instances, failed, &part::worst);
        return pairs.empty() ? 3 : any ? 1 : 0;
    }
};

// Each of these checks a layer and adds the results to the report, without
// changing the machine. Not thread-safe. May throw std::bad_alloc.

// machine.cc: the kernel, its settings, limits of this process.
void check_machine(const tree &files, part *out);
// How programs that are started here load the plug-in.
void check_environment(part *out);
// gpus.cc: the CUDA driver and its GPUs.
void check_gpus(const tree &files, report *out);
// nics.cc: libibverbs and its devices. Returns them, in the report's order.
class open_device;
std::deque<open_device> check_nics(const tree &files, report *out);
// pairs.cc: the distances between GPUs and NICs. After all others.
void check_pairs(const tree &files, report *out);
// prove.cc: whether pairs work, by RDMA. After check_pairs().
void prove_pairs(std::deque<open_device> &nics, report *out);
// instances.cc: the UCX that a program would load, or that a folder contains.
void check_instances(const std::string &path, report *out);
// ucx_probe.cc: whether the plug-in can serve that UCX, by the plug-in's own
// code in a child process. `libuct_cuda` may be "". Takes some seconds at most.
void probe_ucx(const std::string &libucp, const std::string &libuct_ib,
               const std::string &libuct_cuda, part *out);

// Calls `what` in a child process, which may crash or hang, and returns the
// text that it writes to the descriptor. The child has no other input and
// output. Ends it and its own children. Returns nullopt if it writes nothing
// for too long, as some file systems are slow.
constexpr int child_patience = 20; // seconds
std::optional<std::string> ask_child(const std::function<void(int to)> &what);

// print.cc, for people: parts, their checks, and a matrix of GPUs and NICs.
void print_text(const report &all);
// For programs; docs/info.md has the schema.
void print_json(const report &all);
// Checks as a line of ASCII, and from there; returns false if it is none.
std::string pack(const std::vector<check> &checks);
bool unpack(const std::string &text, std::vector<check> *checks);

// Prints the plug-in's counters of running programs once a second, the busiest
// programs first: these processes and their descendants. Without any it prints
// all accessible ones. 0 rounds last until a signal, or until no named one is
// left. With `as_json` it prints a line of JSON for each process. Returns the
// exit status: 0, or 1 if there was no program.
int watch(const std::vector<int> &pids, unsigned rounds, bool as_json);

// Whether the standard output is a terminal that knows escape sequences.
bool has_escapes();

extern const char version[]; // the package's

} // namespace ucx_ib_dmabuf::info
