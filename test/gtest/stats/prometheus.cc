// SPDX-License-Identifier: BSD-3-Clause
#include "fixture.h"
#include <cmath>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>

namespace {

const std::string name = "[a-zA-Z_][a-zA-Z0-9_]*";
// Printable characters, with escapes.
const std::string label =
    "(" + name + ")=\"((?:[ !#-\\[\\]-~]|\\\\[\\\\\"n])*)\"";
const std::string number = "-?[0-9][0-9.e+-]*";

void need(bool good, const std::string &what)
{
    if (!good) {
        throw std::runtime_error(what);
    }
}

// Returns the parts of a line, which must match the form.
std::smatch parse(const std::string &line, const std::regex &form)
{
    std::smatch parts;
    need(std::regex_match(line, parts, form), "wrong form: " + line);
    return parts;
}

std::string unescaped(std::string value)
{
    for (size_t at = 0; (at = value.find('\\', at)) != value.npos; ++at) {
        value.erase(at, 1);
        value[at] = (value[at] == 'n') ? '\n' : value[at];
    }
    return value;
}

prometheus_sample parse_sample(const std::string &line)
{
    static const std::regex one(label),
        whole("(" + name + ")(?:\\{(" + label + "(?:," + label + ")*)\\})? (" +
              number + ")");
    const std::smatch parts  = parse(line, whole);
    const std::string labels = parts[2];
    prometheus_sample made{parts[1], {}, std::stod(parts[7])};

    for (std::sregex_iterator each(labels.begin(), labels.end(), one), end;
         each != end; ++each) {
        need(made.labels.emplace((*each)[1], unescaped((*each)[2])).second,
             "label twice: " + line);
    }
    return made;
}

prometheus_metric parse_head(const std::string &help, const std::string &type)
{
    static const std::regex first("# HELP (" + name + ") (.*)"),
        second("# TYPE (" + name + ") (counter|gauge|histogram)");
    const std::smatch said = parse(help, first), is = parse(type, second);
    const prometheus_metric made{said[1], said[2], is[2], {}};

    need(is[1] == made.name, "of something else: " + type);
    need((made.type == "counter") == made.name.ends_with("_total"),
         "type and name do not fit: " + type);
    return made;
}

bool is_sample_of(const prometheus_metric &metric, const std::string &line)
{
    const std::string of = line.substr(0, line.find_first_of("{ "));

    if (metric.type == "histogram") {
        return (of == metric.name + "_bucket") ||
               (of == metric.name + "_sum") || (of == metric.name + "_count");
    }
    return of == metric.name;
}

// Bounds and values must grow; the last bucket, up to +Inf, is the count.
void check_histogram(const prometheus_metric &metric)
{
    double bound = -1, so_far = 0, all = -1;
    bool sum = false;

    for (const prometheus_sample &each : metric.samples) {
        if (each.name.ends_with("_bucket")) {
            const double next = std::stod(each.labels.at("le"));
            need((next > bound) && (each.value >= so_far),
                 "bucket of " + metric.name);
            bound  = next;
            so_far = each.value;
        }
        sum |= each.name.ends_with("_sum");
        all = each.name.ends_with("_count") ? each.value : all;
    }
    need(std::isinf(bound) && (all == so_far) && sum,
         "no whole histogram: " + metric.name);
}

} // namespace

std::vector<prometheus_metric> parse_prometheus(const std::string &text)
{
    std::vector<prometheus_metric> all;
    std::set<std::string> names, seen; // metrics; samples with labels
    std::istringstream in(text);
    std::string line, type;

    need(text.ends_with('\n'), "does not end in a newline");
    for (bool more = bool(std::getline(in, line)); more;) {
        std::getline(in, type);
        prometheus_metric metric = parse_head(line, type);
        need(names.insert(metric.name).second, "twice: " + metric.name);
        while ((more = bool(std::getline(in, line))) &&
               is_sample_of(metric, line)) {
            metric.samples.push_back(parse_sample(line));
            need(seen.insert(line.substr(0, line.rfind(' '))).second,
                 "sample twice: " + line);
        }
        need(!metric.samples.empty(), "no samples of " + metric.name);
        if (metric.type == "histogram") {
            check_histogram(metric);
        }
        all.push_back(metric);
    }
    return all;
}
