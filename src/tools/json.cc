// SPDX-License-Identifier: BSD-3-Clause
#include "output.h"
#include <algorithm>
#include <string_view>

namespace ucx_ib_dmabuf::info {
namespace {

// Of the UTF-8 character that begins there; 0 if none does (Unicode, table
// "Well-Formed UTF-8 Byte Sequences").
size_t length_of_character(std::string_view text)
{
    constexpr struct {
        unsigned char first, last; // of the first byte
        size_t length;
        unsigned char low, high; // of the second one
    } known[]       = {{0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf},
                       {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
                       {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
                       {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf},
                       {0xf4, 0xf4, 4, 0x80, 0x8f}};
    const auto byte = [text](size_t at) {
        return static_cast<unsigned char>(text[at]);
    };

    for (const auto &each : known) {
        if ((byte(0) < each.first) || (byte(0) > each.last)) {
            continue;
        }
        bool good = text.size() >= each.length;
        for (size_t i = 1; good && (i < each.length); ++i) {
            good = (byte(i) >= (i == 1 ? each.low : 0x80)) &&
                   (byte(i) <= (i == 1 ? each.high : 0xbf));
        }
        return good ? each.length : 0;
    }
    return 0;
}

// Names of files may have any bytes.
std::string quoted(std::string_view text)
{
    std::string result = "\"";

    while (!text.empty()) {
        const char byte     = text[0];
        const size_t length = length_of_character(text);
        if (length == 0) {
            result += "\\ufffd";
        } else if ((byte == '"') || (byte == '\\')) {
            result += '\\';
            result += byte;
        } else if (static_cast<unsigned char>(byte) < ' ') {
            char escaped[8];
            snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
            result += escaped;
        } else {
            result += text.substr(0, length);
        }
        text.remove_prefix(std::max<size_t>(length, 1));
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
