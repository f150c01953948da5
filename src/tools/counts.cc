// SPDX-License-Identifier: BSD-3-Clause
//
// What is in a line of JSON that a program shows (metrics/render.h). No parser:
// names are unique, and what is told of pairs comes last.
#include "counts.h"
#include <algorithm>
#include <charconv>
#include <utility>

namespace ucx_ib_dmabuf::info {
namespace {

constexpr size_t max_pairs = 256; // of who lies there may be more

// What is behind a name; empty if there is none.
std::string_view behind(std::string_view json, std::string_view name)
{
    const std::string key = "\"" + std::string(name) + "\": ";
    const size_t at       = json.find(key);

    return (at == json.npos) ? std::string_view()
                             : json.substr(at + key.size());
}

template <typename Number>
Number number_at(std::string_view text, Number none)
{
    std::from_chars(text.data(), text.data() + text.size(), none);
    return none;
}

template <typename Number = uint64_t>
Number number(std::string_view json, std::string_view name, Number none = 0)
{
    return number_at(behind(json, name), none);
}

std::string word(std::string_view json, std::string_view name)
{
    std::string_view rest = behind(json, name);
    std::string result;

    if (!rest.starts_with('"')) {
        return {};
    }
    for (rest.remove_prefix(1); !rest.empty() && (rest[0] != '"');
         rest.remove_prefix(1)) {
        if ((rest[0] == '\\') && (rest.size() > 1)) {
            rest.remove_prefix(1);
        }
        result += rest[0];
    }
    return result;
}

// Of {"name": number, ...}: the sum, and the name of the largest one. Nothing
// is looked for again from each name on: who lies may have many.
std::pair<uint64_t, std::string> sum_of(std::string_view json,
                                        std::string_view name)
{
    std::string_view rest = behind(json, name);
    std::pair<uint64_t, std::string> result;
    uint64_t most = 0;

    rest = rest.substr(0, rest.find('}'));
    for (size_t at = rest.find('"'); at != rest.npos; at = rest.find('"', at)) {
        const size_t end = rest.find('"', at + 1);
        if (end == rest.npos) {
            break;
        }
        const std::string_view next = rest.substr(end);
        const uint64_t value        = next.starts_with("\": ")
                                          ? number_at(next.substr(3), uint64_t{0})
                                          : 0;
        result.first += value;
        if (value > most) {
            most          = value;
            result.second = rest.substr(at + 1, end - at - 1);
        }
        at = end + 1;
    }
    return result;
}

// By way and cause: the sum, and the one that there is most of.
void add_fallbacks(std::string_view json, counts *now)
{
    constexpr std::string_view begin = "{\"way\": ";
    std::string_view rest            = behind(json, "fallbacks");
    uint64_t most                    = 0;

    rest = rest.substr(0, rest.find(']'));
    for (size_t at = rest.find(begin), next = 0; at != rest.npos; at = next) {
        next                        = rest.find(begin, at + 1);
        const std::string_view each = rest.substr(at, next - at);
        const auto operations       = number(each, "operations");
        now->fallbacks += operations;
        if (operations > most) {
            most      = operations;
            now->most = word(each, "way") + ": " + word(each, "cause");
        }
    }
}

pair_counts pair_of(std::string_view json)
{
    pair_counts one;

    one.nic           = word(json, "nic");
    one.gpu           = number(json, "gpu", -1);
    one.registrations = number(json, "registrations");
    one.evictions     = number(json, "evictions");
    one.regions       = number(json, "regions");
    one.bytes         = number(json, "registered_bytes");
    one.most          = sum_of(json, "path_bytes").second;
    const auto causes = sum_of(json, "fallback_causes");
    one.fallbacks     = causes.first;
    one.most += causes.second.empty() ? "" : "; " + causes.second;
    return one;
}

void add_pairs(std::string_view json, counts *now)
{
    constexpr std::string_view begin = "{\"nic\": ";
    std::string_view rest            = behind(json, "pairs");

    for (size_t at = rest.find(begin);
         (at != rest.npos) && (now->pairs.size() < max_pairs);) {
        const size_t next = rest.find(begin, at + 1);
        now->pairs.push_back(pair_of(rest.substr(at, next - at)));
        at = next;
    }
    std::ranges::stable_sort(now->pairs, std::greater(), &pair_counts::bytes);
}

} // namespace

counts counts_of(std::string_view json)
{
    counts now;

    now.misses        = number(json, "misses");
    now.lookups       = number(json, "hits") + now.misses;
    now.registrations = number(json, "registrations");
    now.evictions     = number(json, "evictions");
    now.regions       = number(json, "regions");
    now.bytes         = number(json, "mapped_bytes");
    add_fallbacks(json, &now);
    const auto complete = number(json, "hooks_complete", -1);
    now.hooks   = (complete > 0) ? "all" : (complete == 0) ? "gaps" : "?";
    now.missing = word(json, "hooks_missing");
    add_pairs(json, &now);
    return now;
}

} // namespace ucx_ib_dmabuf::info
