// SPDX-License-Identifier: BSD-3-Clause
#include "report.h"
#include <nlohmann/json.hpp>

namespace ucx_ib_dmabuf::info {

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
