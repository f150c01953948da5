// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

// The counters that a program shows, a line of JSON (stats/render.h). They are
// not to be trusted: a key may be missing, and a value be of any type.
namespace ucx_ib_dmabuf::info {

using json = nlohmann::json; // finds a key quickly even among many forged ones

// Returns null if there is no such member, and the next ones 0, or an empty
// text, also if it is of another type.
inline const json &member(const json &of, const char *key)
{
    static const json none;
    const auto found = of.find(key);
    return (found == of.end()) ? none : *found;
}

inline uint64_t number_of(const json &of, const char *key)
{
    const json &found = member(of, key);
    return found.is_number_unsigned() ? found.get<uint64_t>() : 0;
}

// Replaces the characters that a terminal interprets.
inline std::string printable(std::string text)
{
    for (char &each : text) {
        each = ((each < ' ') || (each > '~')) ? '?' : each;
    }
    return text;
}

inline std::string text_of(const json &of, const char *key)
{
    const json &found = member(of, key);
    return found.is_string() ? printable(found.get<std::string>()) : "";
}

// A page that is nested more deeply could exhaust the stack, and one of more
// parts would take minutes. A process's own has some 8000.
inline json parse(const std::string &text)
{
    constexpr int deepest = 4;
    int left              = 16384;
    const auto keeps      = [&](int depth, json::parse_event_t, json &) {
        return (depth <= deepest) && (left-- > 0);
    };
    return json::parse(text, keeps, false);
}

// Increase since the last round. A smaller count began anew, or is wrong.
inline uint64_t increase(const json &now, const json &before, const char *key)
{
    const uint64_t value = number_of(now, key), old = number_of(before, key);
    return (value >= old) ? value - old : value;
}

// The sum of an object's numbers, and the key of the largest.
struct summary {
    uint64_t sum = 0, largest = 0;
    std::string most{};

    void add(const std::string &key, uint64_t value)
    {
        sum += value;
        if (value > largest) {
            largest = value;
            most    = printable(key);
        }
    }
};

inline summary sum_of(const json &numbers)
{
    summary made;

    for (const auto &[key, value] : numbers.items()) {
        made.add(key, value.is_number_unsigned() ? value.get<uint64_t>() : 0);
    }
    return made;
}

inline summary fallbacks_of(const json &program)
{
    summary made;

    for (const json &each : member(program, "fallbacks")) {
        made.add(text_of(each, "way") + ": " + text_of(each, "cause"),
                 number_of(each, "operations"));
    }
    return made;
}

} // namespace ucx_ib_dmabuf::info
