// SPDX-License-Identifier: BSD-3-Clause
#include "trace.h"
#include <map>
#include <sstream>

namespace {

struct grammar {
    trace_step::action what;
    bool sized; // has a size
    bool which; // may name a GPU or NIC
};

const std::map<std::string, grammar> actions = {
    {"device", {trace_step::action::device, false, false}},
    {"nics", {trace_step::action::nics, false, false}},
    {"budget", {trace_step::action::budget, false, false}},
    {"alloc", {trace_step::action::alloc, true, true}},
    {"map", {trace_step::action::map, true, true}},
    {"free", {trace_step::action::free, false, false}},
    {"use", {trace_step::action::use, true, true}}};

bool read_step(std::istringstream &words, const grammar &known, trace_step *out)
{
    *out = {known.what, 0, 0, -1};
    if (!(words >> out->address) ||
        (known.sized && (!(words >> out->size) || (out->size == 0)))) {
        return false;
    }
    if (known.which && !(words >> out->which)) {
        out->which = -1;
        words.clear();
    }
    std::string more;
    return !(words >> more);
}

} // namespace

bool read_trace(std::istream &in, std::vector<trace_step> *out,
                std::string *error)
{
    std::string line;
    for (size_t number = 1; std::getline(in, line); ++number) {
        std::istringstream words(line.substr(0, line.find('#')));
        std::string name;
        if (!(words >> name)) {
            continue;
        }
        auto known = actions.find(name);
        trace_step step;
        if ((known == actions.end()) ||
            !read_step(words, known->second, &step)) {
            *error = "line " + std::to_string(number) + ": " + line;
            return false;
        }
        out->push_back(step);
    }
    return true;
}
