// SPDX-License-Identifier: BSD-3-Clause
#include "look.h"
#include <nlohmann/json.hpp>

namespace ucx_ib_dmabuf::info {
namespace {

using json = nlohmann::ordered_json;

json checks_of(const part &one)
{
    json all = json::array();

    for (const check &each : one.checks) {
        json made{{"name", each.name},
                  {"state", name_of(each.how)},
                  {"found", each.found}};
        if (each.how != state::ok) {
            made["cause"]  = each.cause;
            made["remedy"] = each.remedy;
        }
        all.push_back(std::move(made));
    }
    return all;
}

json part_of(const part &one)
{
    json made{{"name", one.name}, {"state", name_of(one.worst())}};

    if (!one.place.path.empty()) {
        made["place"] = one.place.path;
        made["numa"]  = one.place.numa;
    }
    made["checks"] = checks_of(one);
    return made;
}

json list_of(const std::vector<part> &all)
{
    json made = json::array();

    for (const part &each : all) {
        made.push_back(part_of(each));
    }
    return made;
}

json pairs_of(const report &all)
{
    json made = json::array();

    for (const pair &each : all.pairs) {
        made.push_back({{"gpu", all.gpus[each.gpu].name},
                        {"nic", all.nics[each.nic].name},
                        {"state", name_of(each.how)},
                        {"distance", each.distance},
                        {"checks", checks_of(each.about)}});
    }
    return made;
}

} // namespace

void print_json(const report &all, FILE *to)
{
    const json made{{"schema", schema_version},
                    {"version", std::string(version)},
                    {"status", all.status()},
                    {"machine", part_of(all.machine)},
                    {"environment", part_of(all.environment)},
                    {"gpus", list_of(all.gpus)},
                    {"nics", list_of(all.nics)},
                    {"copies", list_of(all.copies)},
                    {"pairs", pairs_of(all)}};
    // File names may contain any bytes.
    const std::string text =
        made.dump(1, ' ', false, json::error_handler_t::replace);

    fprintf(to, "%s\n", text.c_str());
}

} // namespace ucx_ib_dmabuf::info
