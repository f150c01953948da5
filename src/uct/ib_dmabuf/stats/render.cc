// SPDX-License-Identifier: BSD-3-Clause
#include "stats_file.h"

namespace ucx_ib_dmabuf {
namespace {

using number = unsigned long long;

// "name": value, ...
void add_json(text_writer *to, size_t count, const auto &row)
{
    for (const metric_info &of : std::span(metrics).first(count)) {
        const auto get = [&](size_t i) {
            return number{row.get_at(of.at + i)};
        };
        const char *comma = "";

        to->add(", \"%s\": ", of.name.data());
        if (of.size() == 1) {
            to->add("%llu", get(0));
            continue;
        }
        to->add("{");
        for (size_t i = 0; i < of.size(); ++i) {
            if (get(i) != 0) {
                const auto [label, inner] = of.labels(i);
                to->add("%s\"%s%s%s\": %llu", comma, label,
                        *inner == '\0' ? "" : ": ", inner, get(i));
                comma = ", ";
            }
        }
        to->add("}");
    }
}

class exposition : public text_writer {
public:
    exposition(std::span<char> out, int pid, std::string_view program)
        : text_writer(out), pid_(pid), program_(program.substr(0, 63))
    {
    }

    // `each_row` calls its argument with each row of numbers.
    void add_metrics(const char *prefix, size_t count, const auto &each_row)
    {
        for (const metric_info &of : std::span(metrics).first(count)) {
            snprintf(name_, sizeof(name_), "ucx_ib_dmabuf_%s%s%s", prefix,
                     of.name.data(), of.kind == "counter" ? "_total" : "");
            add("# HELP %s %s.\n# TYPE %s %s\n", name_, of.help, name_,
                of.kind.data());
            each_row([&](const auto &row) { add_samples(of, row); });
        }
    }

private:
    void begin_sample(const counters &)
    {
        add("%s{pid=\"%d\"", name_, pid_);
        add_quoted(",program=", program_);
    }
    void begin_sample(const pair_row &row)
    {
        begin_sample(process_counters);
        add_quoted(",nic=", row.nic);
        add(",gpu=\"%d\"", row.gpu);
    }
    void add_samples(const metric_info &of, const auto &row)
    {
        for (size_t i = 0; i < of.size(); ++i) {
            const auto [label, inner] = of.labels(i);
            begin_sample(row);
            if (*label != '\0') {
                add(",%s=\"%s\"", of.label.name, label);
            }
            if (*inner != '\0') {
                add(",%s=\"%s\"", of.inner.name, inner);
            }
            add("} %llu\n", number{row.get_at(of.at + i)});
        }
    }

    const int pid_;
    const std::string_view program_;
    char name_[96] = "";
};

} // namespace

std::string_view render_json(const counters &all, int pid,
                             std::span<char> out) noexcept
{
    const char *comma          = "";
    const std::string_view gap = all.hooks_missing;
    text_writer to(out);

    to.add("{\"pid\": %d", pid);
    add_json(&to, metrics.size(), all);
    if (!gap.empty()) {
        to.add_quoted(", \"hooks_missing\": ", gap);
    }
    to.add(", \"pairs\": [");
    all.each_pair([&](const pair_row &row) {
        to.add("%s{", comma);
        to.add_quoted("\"nic\": ", row.nic);
        to.add(", \"gpu\": %d", row.gpu);
        add_json(&to, pair_metrics, row);
        to.add("}");
        comma = ", ";
    });
    to.add("]}\n");
    return to.result();
}

std::string_view render_prometheus(const counters &all, int pid,
                                   std::string_view program,
                                   std::span<char> out) noexcept
{
    const auto process = [&](const auto &call) { call(all); };
    const auto pairs   = [&](const auto &call) { all.each_pair(call); };
    bool any           = false;
    exposition to(out, pid, program);

    to.add_metrics("", metrics.size(), process);
    pairs([&](const pair_row &) { any = true; });
    if (any) {
        to.add_metrics("pair_", pair_metrics, pairs);
    }
    return to.result();
}

} // namespace ucx_ib_dmabuf
