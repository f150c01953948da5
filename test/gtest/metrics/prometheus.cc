// SPDX-License-Identifier: BSD-3-Clause
#include "prometheus.h"
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>
#include <stdexcept>

namespace {

class line_parser {
public:
    explicit line_parser(const std::string &line) : line_(line) {}

    void need(bool good, const char *what) const
    {
        if (!good) {
            throw std::runtime_error(std::string(what) + ": " + line_);
        }
    }
    char next()
    {
        need(at_ < line_.size(), "too short");
        return line_[at_++];
    }
    void skip(const std::string &what)
    {
        need(line_.compare(at_, what.size(), what) == 0, what.c_str());
        at_ += what.size();
    }
    bool is_next(char what) const
    {
        return (at_ < line_.size()) && (line_[at_] == what);
    }
    std::string rest() const { return line_.substr(at_); }

    std::string name()
    {
        const size_t begin = at_;
        while ((at_ < line_.size()) &&
               ((isalnum(line_[at_]) != 0) || (line_[at_] == '_'))) {
            ++at_;
        }
        need((at_ > begin) && (isdigit(line_[begin]) == 0), "no name");
        return line_.substr(begin, at_ - begin);
    }
    std::string label_value()
    {
        std::string value;
        skip("\"");
        for (char one; (one = next()) != '"';) {
            need((one >= ' ') && (one <= '~'), "not printable");
            if (one == '\\') {
                one = next();
                need((one == '\\') || (one == '"') || (one == 'n'), "escape");
                one = (one == 'n') ? '\n' : one;
            }
            value += one;
        }
        return value;
    }
    double number()
    {
        char *end          = nullptr;
        const double value = strtod(line_.c_str() + at_, &end);
        need((end != line_.c_str() + at_) && (*end == '\0'), "no number");
        return value;
    }

private:
    const std::string &line_;
    size_t at_ = 0;
};

prometheus_sample parse_sample(const std::string &line)
{
    line_parser in(line);
    prometheus_sample made{in.name(), {}, 0};

    if (in.is_next('{')) {
        do {
            in.next();
            const std::string label = in.name();
            in.skip("=");
            in.need(made.labels.emplace(label, in.label_value()).second,
                    "label twice");
        } while (in.is_next(','));
        in.skip("}");
    }
    in.skip(" ");
    made.value = in.number();
    return made;
}

prometheus_metric parse_head(const std::string &help, const std::string &type)
{
    line_parser first(help), second(type);
    prometheus_metric made;

    first.skip("# HELP ");
    made.name = first.name();
    first.skip(" ");
    made.help = first.rest();
    second.skip("# TYPE " + made.name + " ");
    made.type        = second.rest();
    const bool total = made.name.ends_with("_total");
    second.need(
        (made.type == "counter" && total) ||
            ((made.type == "gauge" || made.type == "histogram") && !total),
        "type and name do not fit");
    return made;
}

bool is_sample_of(const prometheus_metric &metric, const std::string &line)
{
    const std::string name = line.substr(0, line.find_first_of("{ "));

    if (metric.type == "histogram") {
        return (name == metric.name + "_bucket") ||
               (name == metric.name + "_sum") ||
               (name == metric.name + "_count");
    }
    return name == metric.name;
}

// The buckets grow, from the first to the last bound, which is all.
void check_histogram(const prometheus_metric &metric)
{
    double bound = -1, so_far = 0, all = -1;
    bool sum = false;

    for (const prometheus_sample &each : metric.samples) {
        if (each.name.ends_with("_bucket")) {
            const double next = std::stod(each.labels.at("le"));
            if ((next <= bound) || (each.value < so_far)) {
                throw std::runtime_error("bucket of " + metric.name);
            }
            bound  = next;
            so_far = each.value;
        }
        sum |= each.name.ends_with("_sum");
        all = each.name.ends_with("_count") ? each.value : all;
    }
    if (!std::isinf(bound) || (all != so_far) || !sum) {
        throw std::runtime_error("no whole histogram: " + metric.name);
    }
}

} // namespace

std::vector<prometheus_metric> parse_prometheus(const std::string &text)
{
    std::vector<prometheus_metric> all;
    std::vector<std::string> lines;
    std::set<std::string> names;

    if (text.empty() || (text.back() != '\n')) {
        throw std::runtime_error("does not end in a newline");
    }
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
        lines.push_back(line);
    }
    for (size_t i = 0; i < lines.size();) {
        if (i + 2 >= lines.size()) {
            throw std::runtime_error("no samples: " + lines[i]);
        }
        prometheus_metric metric = parse_head(lines[i], lines[i + 1]);
        if (!names.insert(metric.name).second) {
            throw std::runtime_error("twice: " + metric.name);
        }
        std::set<std::pair<std::string, std::map<std::string, std::string>>>
            samples;
        for (i += 2; i < lines.size() && is_sample_of(metric, lines[i]); ++i) {
            metric.samples.push_back(parse_sample(lines[i]));
            const prometheus_sample &last = metric.samples.back();
            if (!samples.emplace(last.name, last.labels).second) {
                throw std::runtime_error("sample twice: " + lines[i]);
            }
        }
        if (metric.samples.empty()) {
            throw std::runtime_error("no samples of " + metric.name);
        }
        if (metric.type == "histogram") {
            check_histogram(metric);
        }
        all.push_back(metric);
    }
    return all;
}
