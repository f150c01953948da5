// SPDX-License-Identifier: BSD-3-Clause
#include "render.h"
#include "counters.h"
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

using number = unsigned long long;

class writer : public text_writer {
public:
    using text_writer::text_writer;

    // In quotes, as UTF-8: only printable ASCII is copied.
    void add_quoted(const char *before, std::string_view value,
                    const char *newline = "?") noexcept
    {
        add("%s\"", before);
        for (const char each : value) {
            if ((each == '\\') || (each == '"')) {
                add("\\%c", each);
            } else if (each == '\n') {
                add("%s", newline);
            } else {
                add("%c", ((each < ' ') || (each > '~')) ? '?' : each);
            }
        }
        add("\"");
    }
};

// The value of a metric with at most one label.
void add_value(writer *to, const metric_info &of, const auto &from)
{
    const auto get = [&](size_t i) { return number{from.get_at(of.at + i)}; };
    const char *comma = "";

    if (of.kind == metric_kind::histogram) {
        to->add("{\"sum_ns\": %llu, \"buckets\": [", get(of.buckets));
        for (size_t i = 0; i < of.buckets; ++i, comma = ", ") {
            to->add("%s%llu", comma, get(i));
        }
        to->add("]}");
    } else if (!of.label.is_given()) {
        to->add("%llu", get(0));
    } else {
        to->add("{");
        for (size_t i = 0; i < of.size(); ++i) {
            if (get(i) != 0) {
                to->add_quoted(comma, of.label.values[i]);
                to->add(": %llu", get(i));
                comma = ", ";
            }
        }
        to->add("}");
    }
}

// "name": value, ...
void add_metrics(writer *to, const auto &infos, const auto &from)
{
    for (const metric_info &each : infos) {
        if (!each.inner.is_given()) {
            to->add(", \"%s\": ", each.json_name);
            add_value(to, each, from);
        }
    }
}

// The metrics with two labels: a list of objects, for each way and cause with
// an operation.
void add_fallbacks(writer *to)
{
    const counters &all = process_counters;
    const char *comma   = "";

    to->add(", \"fallbacks\": [");
    for (size_t i = 0; i < by_way.count() * by_cause.count(); ++i) {
        if (const number count{all.get("fallback_operations", i)}; count != 0) {
            to->add("%s{\"way\": \"%s\", \"cause\": \"%s\", "
                    "\"operations\": %llu, \"bytes\": %llu}",
                    comma, by_way.values[i / by_cause.count()].data(),
                    by_cause.values[i % by_cause.count()].data(), count,
                    number{all.get("fallback_bytes", i)});
            comma = ", ";
        }
    }
    to->add("]");
}

// Prometheus' text of one process.
class exposition : public writer {
public:
    exposition(std::span<char> out, const char *program)
        : writer(out), program_(program)
    {
        // The name may be as long as all arguments of the program.
        program_ = program_.substr(0, 63);
    }

    void add_process()
    {
        for (const metric_info &each : process_infos) {
            begin_metric("", each);
            add_numbers(each, process_counters, nullptr);
        }
    }
    void add_pairs()
    {
        bool any = false;

        process_counters.each_pair([&](const pair_row &) { any = true; });
        if (!any) {
            return;
        }
        for (const metric_info &each : pair_infos) {
            begin_metric("pair_", each);
            process_counters.each_pair(
                [&](const pair_row &row) { add_numbers(each, row, &row); });
        }
    }

private:
    static constexpr uint64_t billion = 1'000'000'000;

    void begin_metric(const char *prefix, const metric_info &of)
    {
        const bool is_time = of.kind == metric_kind::histogram;
        const bool counts  = of.kind == metric_kind::counter;

        snprintf(name_, sizeof(name_), "ucx_ib_dmabuf_%s%s%s", prefix, of.name,
                 is_time  ? "_seconds"
                 : counts ? "_total"
                          : "");
        add("# HELP %s %s.\n", name_, of.help);
        add("# TYPE %s %s\n", name_,
            is_time  ? "histogram"
            : counts ? "counter"
                     : "gauge");
    }
    void begin_sample(const pair_row *row, const char *part = "")
    {
        add("%s%s{pid=\"%d\"", name_, part, getpid());
        add_quoted(",program=", program_, "\\n");
        if (row != nullptr) {
            add_quoted(",nic=", row->nic, "\\n");
            add(",gpu=\"%d\"", row->gpu);
        }
    }
    void add_label(const metric_label &of, size_t value)
    {
        if (of.is_given()) {
            add(",%s=\"%s\"", of.name, of.values[value].data());
        }
    }
    void add_numbers(const metric_info &of, const auto &from,
                     const pair_row *row)
    {
        const size_t inner = of.inner.count();

        if (of.kind == metric_kind::histogram) {
            add_times(of, from);
            return;
        }
        for (size_t i = 0; i < of.size(); ++i) {
            begin_sample(row);
            add_label(of.label, i / inner);
            add_label(of.inner, i % inner);
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
            begin_sample(nullptr, "_bucket");
            if (i + 1 < of.buckets) {
                add(",le=\"%llu.%09llu\"", number{bound / billion},
                    number{bound % billion});
            } else {
                add(",le=\"+Inf\"");
            }
            add("} %llu\n", number{so_far});
        }
        begin_sample(nullptr, "_sum");
        add("} %llu.%09llu\n", number{sum / billion}, number{sum % billion});
        begin_sample(nullptr, "_count");
        add("} %llu\n", number{so_far});
    }

    std::string_view program_;
    char name_[96] = "";
};

} // namespace

std::string_view render_json(std::span<char> out) noexcept
{
    const counters &all = process_counters;
    const char *comma   = "";
    writer to(out);

    to.add("{\"pid\": %d", getpid());
    add_metrics(&to, process_infos, all);
    add_fallbacks(&to);
    if (const char *why =
            __atomic_load_n(&all.hooks_missing, __ATOMIC_ACQUIRE)) {
        to.add_quoted(", \"hooks_missing\": ", why);
    }
    to.add(", \"pairs\": [");
    all.each_pair([&](const pair_row &row) {
        to.add("%s{", comma);
        to.add_quoted("\"nic\": ", row.nic);
        to.add(", \"gpu\": %d", row.gpu);
        add_metrics(&to, pair_infos, row);
        to.add("}");
        comma = ", ";
    });
    to.add("]}\n");
    return to.result();
}

std::string_view render_prometheus(const char *program,
                                   std::span<char> out) noexcept
{
    exposition to(out, program);

    to.add_process();
    to.add_pairs();
    return to.result();
}

} // namespace ucx_ib_dmabuf
