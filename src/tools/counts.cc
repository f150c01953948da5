// SPDX-License-Identifier: BSD-3-Clause
#include "counts.h"
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace ucx_ib_dmabuf::info {
namespace {

using nlohmann::json;

constexpr size_t max_pairs = 256; // of who lies there may be more

// What an object has under a name; null, also where it is no object.
const json &member(const json &in, const char *name)
{
    static const json none;
    const auto found = in.find(name);

    return (found == in.end()) ? none : *found;
}

uint64_t number(const json &in, const char *name)
{
    const json &found = member(in, name);
    return found.is_number_unsigned() ? found.get<uint64_t>() : 0;
}

std::string word(const json &in, const char *name)
{
    const json &found = member(in, name);
    return found.is_string() ? printable(found.get<std::string>()) : "";
}

// The name that has the largest number; "" if none has one.
std::string largest(const json &in)
{
    std::string result;
    uint64_t most = 0;

    for (const auto &[name, value] : in.items()) {
        if (value.is_number_unsigned() && (value.get<uint64_t>() > most)) {
            most   = value.get<uint64_t>();
            result = name;
        }
    }
    return printable(std::move(result));
}

// By way and cause: the sum, and the one that there is most of.
void add_fallbacks(const json &all, counts *now)
{
    uint64_t most = 0;

    for (const json &each : all) {
        const uint64_t operations = number(each, "operations");
        now->fallbacks += operations;
        if (operations > most) {
            most      = operations;
            now->most = word(each, "way") + ": " + word(each, "cause");
        }
    }
}

pair_counts pair_of(const json &in)
{
    const json &causes = member(in, "fallback_causes");
    const json &gpu    = member(in, "gpu");
    pair_counts one;

    one.nic           = word(in, "nic");
    one.gpu           = gpu.is_number_integer() ? gpu.get<int>() : -1;
    one.registrations = number(in, "registrations");
    one.evictions     = number(in, "evictions");
    one.regions       = number(in, "regions");
    one.bytes         = number(in, "registered_bytes");
    one.most          = largest(member(in, "path_bytes"));
    for (const auto &[cause, operations] : causes.items()) {
        one.fallbacks += number(causes, cause.c_str());
    }
    const std::string cause = largest(causes);
    one.most += cause.empty() ? "" : "; " + cause;
    return one;
}

void add_pairs(const json &all, counts *now)
{
    for (const json &each : all) {
        if (now->pairs.size() == max_pairs) {
            break;
        }
        now->pairs.push_back(pair_of(each));
    }
    std::ranges::stable_sort(now->pairs, std::greater(), &pair_counts::bytes);
}

} // namespace

std::string printable(std::string text)
{
    for (char &each : text) {
        each = ((each < ' ') || (each > '~')) ? '?' : each;
    }
    return text;
}

std::string line_with_pid(int pid, std::string_view text)
{
    using line = nlohmann::ordered_json; // "pid" stays in front
    // dump() recurses: what is nested deeper than render_json() does goes.
    const auto is_shallow = [](int depth, line::parse_event_t, line &) {
        return depth < 16;
    };
    line all = line::parse(text, is_shallow, false);

    if (!all.is_object()) {
        return {};
    }
    all["pid"] = pid;
    return all.dump(-1, ' ', true, line::error_handler_t::replace) + "\n";
}

counts counts_of(std::string_view text)
{
    const json all = json::parse(text, nullptr, false);
    counts now;

    now.misses           = number(all, "misses");
    now.lookups          = number(all, "hits") + now.misses;
    now.registrations    = number(all, "registrations");
    now.evictions        = number(all, "evictions");
    now.regions          = number(all, "regions");
    now.bytes            = number(all, "mapped_bytes");
    const json &complete = member(all, "hooks_complete");
    now.hooks            = !complete.is_number_unsigned() ? "?"
                           : (complete != 0)              ? "all"
                                                          : "gaps";
    now.missing          = word(all, "hooks_missing");
    add_fallbacks(member(all, "fallbacks"), &now);
    add_pairs(member(all, "pairs"), &now);
    return now;
}

} // namespace ucx_ib_dmabuf::info
