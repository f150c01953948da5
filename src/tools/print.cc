// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <cstdio>
#include <nlohmann/json.hpp>
#include <uct/ib_dmabuf/report.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

// File names may contain any bytes. A terminal interprets some, also U+0080 to
// U+009F, which begin with this byte in UTF-8.
std::string harmless(std::string text)
{
    constexpr char before_orders = '\xc2';

    for (size_t i = 0; i < text.size(); ++i) {
        if (((text[i] & ~0x1f) == 0) || (text[i] == 0x7f)) {
            text[i] = '?';
        } else if ((i > 0) && (text[i - 1] == before_orders) &&
                   ((text[i] & 0x60) == 0)) {
            text[i - 1] = text[i] = '?';
        }
    }
    return text;
}

class printer {
public:
    void print(const part &one) const
    {
        if (one.checks.empty()) {
            return;
        }
        puts(harmless(one.name).c_str());
        for (const check &each : one.checks) {
            printf("  %-20s  ", each.name.c_str());
            print_state(each.how, "", 7);
            printf("  %s\n", harmless(each.found).c_str());
            print_reason("cause", each.cause);
            print_reason("remedy", each.remedy);
        }
        puts("");
    }

    // Each cell has distance and state.
    void print_matrix(const report &all) const
    {
        size_t width = sizeof("SYS warning");

        for (const part &nic : all.nics) {
            width = std::max(width, nic.name.size() + 1);
        }
        const int cell = static_cast<int>(width);
        printf("%-8s", "");
        for (const part &nic : all.nics) {
            printf("  %-*s", cell, harmless(nic.name).c_str());
        }
        for (const pair &each : all.pairs) {
            if (each.nic == 0) {
                printf("\n%-8s", all.gpus[each.gpu].name.c_str());
            }
            printf("  ");
            print_state(each.how, each.distance + " ", cell);
        }
        puts("");
    }

private:
    void print_state(state how, const std::string &before, int width) const
    {
        constexpr const char *colours[] = {"\033[32m", "\033[33m", "\033[31m"};
        const auto which                = static_cast<unsigned>(how);

        printf("%s%-*s%s", coloured_ ? colours[which] : "", width,
               (before + state_names[which]).c_str(),
               coloured_ ? "\033[0m" : "");
    }
    void print_reason(const char *what, const std::string &text) const
    {
        if (!text.empty()) {
            printf("  %-20s  %s: %s\n", "", what, harmless(text).c_str());
        }
    }

    const bool coloured_ = has_escapes() && variable("NO_COLOR").empty();
};

// Reports equal checks of several pairs once: on a machine with 8 GPUs and 8
// NICs most pairs are far apart. The matrix shows which.
std::vector<part> group(const std::vector<pair> &pairs)
{
    std::vector<part> groups;

    for (const pair &each : pairs) {
        const part &one = each.about;
        // Two checks are about places; more were requested by --prove.
        if (((one.worst() == ok) && (one.checks.size() <= 2)) ||
            std::ranges::count(groups, one.checks, &part::checks) != 0) {
            continue;
        }
        const auto alike = std::ranges::count_if(pairs, [&](const pair &other) {
            return other.about.checks == one.checks;
        });
        groups.push_back(one);
        if (alike > 1) {
            groups.back().name +=
                " and " + std::to_string(alike - 1) + " more of these";
        }
    }
    return groups;
}

} // namespace

bool has_escapes()
{
    const std::string type = variable("TERM");
    return (isatty(STDOUT_FILENO) != 0) && !type.empty() && (type != "dumb");
}

void print_text(const report &all)
{
    const printer out;

    out.print(all.machine);
    out.print(all.environment);
    for (const auto &parts :
         {all.gpus, all.nics, all.instances, group(all.pairs)}) {
        for (const part &each : parts) {
            out.print(each);
        }
    }
    if (!all.pairs.empty()) {
        out.print_matrix(all);
        return;
    }
    printf("No pair of a GPU and a NIC: %zu GPUs, %zu NICs.\n", all.gpus.size(),
           all.nics.size());
}

using json = nlohmann::ordered_json;

constexpr int schema_version = 1;

NLOHMANN_JSON_SERIALIZE_ENUM(state, {{ok, "ok"},
                                     {warning, "warning"},
                                     {fails, "fails"}})

static void to_json(json &to, const check &one)
{
    to = {{"name", one.name}, {"state", one.how}, {"found", one.found}};
    if (one.how != ok) {
        to["cause"]  = one.cause;
        to["remedy"] = one.remedy;
    }
}

static void from_json(const json &from, check &one)
{
    one = {from.at("name"), from.at("state"), from.at("found"),
           from.value("cause", ""), from.value("remedy", "")};
}

static void to_json(json &to, const part &one)
{
    to = {{"name", one.name}, {"state", one.worst()}};
    if (!one.place.path.empty()) {
        to["place"] = one.place.path;
        to["numa"]  = one.place.numa;
    }
    to["checks"] = one.checks;
}

// File names may contain any bytes.
static std::string text_of(const json &made, int indent, bool ascii)
{
    return made.dump(indent, ' ', ascii, json::error_handler_t::replace);
}

std::string pack(const std::vector<check> &checks)
{
    return text_of(checks, -1, true);
}

bool unpack(const std::string &text, std::vector<check> *checks)
try {
    *checks = json::parse(text).get<std::vector<check>>();
    return true;
} catch (const json::exception &) {
    return false;
}

void print_json(const report &all)
{
    json pairs = json::array();

    for (const pair &each : all.pairs) {
        pairs.push_back({{"gpu", all.gpus[each.gpu].name},
                         {"nic", all.nics[each.nic].name},
                         {"state", each.how},
                         {"distance", each.distance},
                         {"checks", each.about.checks}});
    }
    puts(text_of({{"schema", schema_version},
                  {"version", std::string(version)},
                  {"status", all.status()},
                  {"machine", all.machine},
                  {"environment", all.environment},
                  {"gpus", all.gpus},
                  {"nics", all.nics},
                  {"copies", all.instances},
                  {"pairs", std::move(pairs)}},
                 1, false)
             .c_str());
}

} // namespace ucx_ib_dmabuf::info
