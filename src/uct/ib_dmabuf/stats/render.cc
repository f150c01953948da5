// SPDX-License-Identifier: BSD-3-Clause
#include "stats_file.h"

namespace ucx_ib_dmabuf {
namespace {

using number = unsigned long long;

class writer : public text_writer {
public:
    using text_writer::text_writer;

    // In quotes, as UTF-8: only printable ASCII is copied.
    void add_quoted(const char *before, std::string_view value) noexcept
    {
        add("%s\"", before);
        for (const char each : value) {
            const bool is_escaped = (each == '\\') || (each == '"');
            add("%s%c", is_escaped ? "\\" : "",
                ((each < ' ') || (each > '~')) ? '?' : each);
        }
        add("\"");
    }
};

// "name": value, ...
void add_json(writer *to, size_t count, const auto &row)
{
    for (const metric_info &of : std::span(metrics).first(count)) {
        const auto get = [&](size_t i) {
            return number{row.get_at(of.at + i)};
        };
        const char *comma = "";

        to->add(", \"%s\": ", of.name.data());
        if (of.is_histogram()) {
            to->add("{\"sum_ns\": %llu, \"buckets\": [", get(of.buckets));
            for (size_t i = 0; i < of.buckets; ++i, comma = ", ") {
                to->add("%s%llu", comma, get(i));
            }
            to->add("]}");
        } else if (of.size() == 1) {
            to->add("%llu", get(0));
        } else {
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
}

class exposition : public writer {
public:
    exposition(std::span<char> out, int pid, std::string_view program)
        : writer(out), pid_(pid), program_(program.substr(0, 63))
    {
    }

    // `each_row` calls its argument with each row of numbers.
    void add_metrics(const char *prefix, size_t count, const auto &each_row)
    {
        for (const metric_info &of : std::span(metrics).first(count)) {
            snprintf(name_, sizeof(name_), "ucx_ib_dmabuf_%s%s%s", prefix,
                     of.name.data(),
                     of.is_histogram()      ? "_seconds"
                     : of.kind == "counter" ? "_total"
                                            : "");
            add("# HELP %s %s.\n# TYPE %s %s\n", name_, of.help, name_,
                of.kind.data());
            each_row([&](const auto &row) {
                of.is_histogram() ? add_times(of, row) : add_numbers(of, row);
            });
        }
    }

private:
    static constexpr uint64_t billion = 1'000'000'000;

    void begin_sample(const auto &, const char *part = "")
    {
        add("%s%s{pid=\"%d\"", name_, part, pid_);
        add_quoted(",program=", program_);
    }
    void begin_sample(const pair_row &row)
    {
        begin_sample(row, "");
        add_quoted(",nic=", row.nic);
        add(",gpu=\"%d\"", row.gpu);
    }
    void add_numbers(const metric_info &of, const auto &from)
    {
        for (size_t i = 0; i < of.size(); ++i) {
            const auto [label, inner] = of.labels(i);
            begin_sample(from);
            if (*label != '\0') {
                add(",%s=\"%s\"", of.label.name, label);
            }
            if (*inner != '\0') {
                add(",%s=\"%s\"", of.inner.name, inner);
            }
            add("} %llu\n", number{from.get_at(of.at + i)});
        }
    }
    // In seconds, by Prometheus' convention. The bounds are exact.
    void add_times(const metric_info &of, const auto &from)
    {
        const uint64_t sum = from.get_at(of.at + of.buckets);
        uint64_t so_far    = 0;

        for (size_t i = 0; i < of.buckets; ++i) {
            const uint64_t bound = uint64_t{1} << (of.first_log + i);
            so_far += from.get_at(of.at + i);
            begin_sample(from, "_bucket");
            if (i + 1 < of.buckets) {
                add(",le=\"%llu.%09llu\"} %llu\n", number{bound / billion},
                    number{bound % billion}, number{so_far});
            } else {
                add(",le=\"+Inf\"} %llu\n", number{so_far});
            }
        }
        begin_sample(from, "_sum");
        add("} %llu.%09llu\n", number{sum / billion}, number{sum % billion});
        begin_sample(from, "_count");
        add("} %llu\n", number{so_far});
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
    writer to(out);

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
