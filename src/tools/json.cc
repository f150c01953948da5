// SPDX-License-Identifier: BSD-3-Clause
#include "output.h"
#include <string_view>

namespace ucx_ib_dmabuf::info {
namespace {

std::string quoted(std::string_view text)
{
    std::string result = "\"";

    for (const char byte : text) {
        if ((byte == '"') || (byte == '\\')) {
            result += '\\';
            result += byte;
        } else if (static_cast<unsigned char>(byte) < ' ') {
            char escaped[8];
            snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
            result += escaped;
        } else {
            result += byte;
        }
    }
    return result + '"';
}

std::string checks_of(const part &one)
{
    std::string result = "\"checks\": [";
    const char *before = "";

    for (const check &each : one.checks) {
        result += before;
        result += "\n    {\"name\": " + quoted(each.name) +
                  ", \"state\": " + quoted(name_of(each.how)) +
                  ", \"found\": " + quoted(each.found);
        if (each.how != state::ok) {
            result += ", \"cause\": " + quoted(each.cause) +
                      ", \"remedy\": " + quoted(each.remedy);
        }
        result += "}";
        before = ",";
    }
    return result + "]";
}

std::string part_of(const part &one)
{
    return "{\"name\": " + quoted(one.name) +
           ", \"state\": " + quoted(name_of(one.worst())) +
           (one.place.path.empty()
                ? ""
                : ", \"place\": " + quoted(one.place.path) +
                      ", \"numa\": " + std::to_string(one.place.numa)) +
           ", " + checks_of(one) + "}";
}

std::string list_of(const std::vector<part> &all)
{
    std::string result = "[";
    const char *before = "";

    for (const part &each : all) {
        result += before;
        result += "\n  " + part_of(each);
        before = ",";
    }
    return result + "]";
}

std::string pairs_of(const report &all)
{
    std::string result = "[";
    const char *before = "";

    for (const pair &each : all.pairs) {
        result += before;
        result += "\n  {\"gpu\": " + quoted(all.gpus[each.gpu].name) +
                  ", \"nic\": " + quoted(all.nics[each.nic].name) +
                  ", \"state\": " + quoted(name_of(each.how)) +
                  ", \"distance\": " + quoted(each.distance) + ", " +
                  checks_of(each.about) + "}";
        before = ",";
    }
    return result + "]";
}

} // namespace

void print_json(const report &all, FILE *to)
{
    fprintf(to,
            "{\"schema\": %d, \"version\": \"%s\", \"status\": %d,\n"
            " \"machine\": %s,\n \"environment\": %s,\n \"gpus\": %s,\n"
            " \"nics\": %s,\n \"copies\": %s,\n \"pairs\": %s}\n",
            schema_version, version, all.status(), part_of(all.machine).c_str(),
            part_of(all.environment).c_str(), list_of(all.gpus).c_str(),
            list_of(all.nics).c_str(), list_of(all.copies).c_str(),
            pairs_of(all).c_str());
}

} // namespace ucx_ib_dmabuf::info
