// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {

namespace fs = std::filesystem;

constexpr const char *state_names[] = {"ok", "warning", "fails"};

state state_of(const json &part)
{
    const auto found = std::ranges::find(state_names, part.at("state"));
    return static_cast<state>(found - state_names);
}

void raise_state(json *part, state least)
{
    (*part)["state"] = state_names[std::max(state_of(*part), least)];
}

json make_part(const std::string &name)
{
    return {{"name", name}, {"state", "ok"}, {"checks", json::array()}};
}

void add(json *part, state how, const char *what, const std::string &found,
         const std::string &cause, const std::string &remedy)
{
    json made{{"name", what}, {"state", state_names[how]}, {"found", found}};

    if (how != ok) {
        made["cause"]  = cause;
        made["remedy"] = remedy;
    }
    (*part)["checks"].push_back(made);
    raise_state(part, how);
}

void diagnose(json *part, const char *what, const std::string &found,
              const std::vector<fault> &faults)
{
    const auto first = std::ranges::find(faults, true, &fault::applies);

    if (first == faults.end()) {
        add(part, ok, what, found);
    } else {
        add(part, first->how, what, first->found.empty() ? found : first->found,
            first->cause, first->remedy);
    }
}

int status_of(const json &report)
{
    const auto any = [&](const char *parts) {
        return std::ranges::count(report.at(parts), fails, state_of) != 0;
    };
    return report.at("pairs").empty() ? 3 : any("pairs") || any("copies");
}

std::string text_of(const json &made, int indent)
{
    return made.dump(indent, ' ', indent < 0, json::error_handler_t::replace);
}

namespace {

std::string coloured(const json &part, const std::string &before, int width)
{
    constexpr const char *colours[] = {"\033[32m", "\033[33m", "\033[31m"};
    const bool colour   = has_escapes() && variable("NO_COLOR").empty();
    const std::string s = before + std::string(part.at("state"));

    return format("%s%-*s%s", colour ? colours[state_of(part)] : "", width,
                  s.c_str(), colour ? "\033[0m" : "")
        .c_str();
}

void print(const std::string &name, const json &part)
{
    if (part.at("checks").empty()) {
        return;
    }
    puts(printable(name).c_str());
    for (const json &each : part.at("checks")) {
        printf("  %-20s  %s  %s\n", std::string(each.at("name")).c_str(),
               coloured(each, "", 7).c_str(),
               printable(std::string(each.at("found"))).c_str());
        for (const char *why : {"cause", "remedy"}) {
            if (const std::string text = each.value(why, ""); !text.empty()) {
                printf("  %-20s  %s: %s\n", "", why, printable(text).c_str());
            }
        }
    }
    puts("");
}

std::string name_of(const json &pair)
{
    return std::string(pair.at("gpu")) + ", " + std::string(pair.at("nic"));
}

// Prints equal checks of several pairs once; the matrix shows which.
void print_pairs(const json &pairs)
{
    std::vector<json> printed;

    for (const json &each : pairs) {
        const json &checks = each.at("checks");
        const bool is_well = std::ranges::count(checks, ok, state_of) ==
                             static_cast<ptrdiff_t>(checks.size());
        // Two checks are about places; more were requested by --prove.
        if ((is_well && (checks.size() <= 2)) ||
            (std::ranges::count(printed, checks) != 0)) {
            continue;
        }
        const auto alike = std::ranges::count_if(pairs, [&](const json &other) {
            return other.at("checks") == checks;
        });
        const std::string more =
            (alike > 1) ? " and " + std::to_string(alike - 1) + " more of these"
                        : "";
        print(name_of(each) + more, each);
        printed.push_back(checks);
    }
}

void print_matrix(const json &report)
{
    size_t width = sizeof("SYS warning");
    std::string gpu;

    for (const json &nic : report.at("nics")) {
        width = std::max(width, std::string(nic.at("name")).size() + 1);
    }
    const int cell = static_cast<int>(width);
    printf("%-8s", "");
    for (const json &nic : report.at("nics")) {
        printf("  %-*s", cell, printable(std::string(nic.at("name"))).c_str());
    }
    for (const json &each : report.at("pairs")) {
        if (each.at("gpu") != gpu) {
            gpu = each.at("gpu");
            printf("\n%-8s", gpu.c_str());
        }
        const std::string distance = each.at("distance");
        printf("  %s", coloured(each, distance + " ", cell).c_str());
    }
    puts("");
}

} // namespace

void print_text(const json &report)
{
    for (const char *name : {"machine", "environment"}) {
        print(name, report.at(name));
    }
    for (const char *parts : {"gpus", "nics", "copies"}) {
        for (const json &each : report.at(parts)) {
            print(each.at("name"), each);
        }
    }
    print_pairs(report.at("pairs"));
    if (!report.at("pairs").empty()) {
        print_matrix(report);
        return;
    }
    printf("No pair of a GPU and a NIC: %zu GPUs, %zu NICs.\n",
           report.at("gpus").size(), report.at("nics").size());
}

std::string variable(const char *name)
{
    const char *value = getenv(name);
    return (value == nullptr) ? "" : value;
}

std::string size_text(uint64_t bytes)
{
    constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    auto number                   = static_cast<double>(bytes);
    unsigned unit                 = 0;

    for (; (number >= 1024) && (unit < 4); ++unit) {
        number /= 1024;
    }
    return format("%.4g %s", number, units[unit]).c_str();
}

std::vector<std::string> split(std::string list, const char *between)
{
    std::vector<std::string> parts;

    for (char *rest = list.data(); rest != nullptr;) {
        const std::string part = strsep(&rest, between);
        if (!part.empty()) {
            parts.push_back(part);
        }
    }
    return parts;
}

std::string printable(std::string_view text)
{
    std::string made(text);

    std::ranges::replace_if(
        made, [](char each) { return (each < ' ') || (each > '~'); }, '?');
    return made;
}

bool has_escapes()
{
    const std::string type = variable("TERM");
    return (isatty(STDOUT_FILENO) != 0) && !type.empty() && (type != "dumb");
}

std::string file(const std::string &path)
{
    std::ifstream in(path, std::ios::binary);
    std::ostringstream all;

    all << in.rdbuf(); // fails half-way for some sleeping devices
    return all.str();
}

std::string line_of(const std::string &path, std::string_view begin)
{
    std::ifstream in(path);

    for (std::string line; std::getline(in, line);) {
        if (line.starts_with(begin)) {
            return line.substr(begin.size());
        }
    }
    return "";
}

std::vector<std::string> list(const std::string &folder)
{
    std::vector<std::string> names;
    std::error_code error;

    for (fs::directory_iterator it(folder, error), end; !error && (it != end);
         it.increment(error)) {
        names.push_back(it->path().filename());
    }
    return names;
}

void add_place(const std::string &device, json *part)
{
    std::error_code error;
    const std::string sys   = fs::canonical(root + "/sys", error);
    const std::string found = fs::canonical(device, error);

    if (!error && found.starts_with(sys + "/devices/pci")) {
        const std::string numa = line_of(found + "/numa_node");
        (*part)["place"]       = found.substr(sys.size());
        (*part)["numa"]        = numa.empty() ? -1 : atoi(numa.c_str());
    }
}

} // namespace ucx_ib_dmabuf::info
