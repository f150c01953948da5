// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <vector>

// A parser of Prometheus' text format, version 0.0.4, that is stricter than
// Prometheus: of each metric HELP, TYPE and the samples come in this order and
// together, and nothing else comes. Throws std::runtime_error, which says what
// is wrong with which line.
struct prometheus_sample {
    std::string name;
    std::map<std::string, std::string> labels;
    double value;
};

struct prometheus_metric {
    std::string name, help, type;
    std::vector<prometheus_sample> samples;
};

std::vector<prometheus_metric> parse_prometheus(const std::string &text);
