// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <map>
#include <string>
#include <uct/ib_dmabuf/stats/counters.h>
#include <utility>
#include <vector>

// A parser of Prometheus' text format, version 0.0.4, stricter than Prometheus.
// HELP, TYPE and the samples of a metric must stand together in this order, and
// nothing else is allowed. Throws std::runtime_error, which names the error and
// the line.
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

// Frees the rows, and sets all counters to zero.
inline void forget_pairs(ucx_ib_dmabuf::counters *all)
{
    while (all->newest != nullptr) {
        delete std::exchange(all->newest, all->newest->next);
    }
    *all = {};
}
