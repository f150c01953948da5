// SPDX-License-Identifier: BSD-3-Clause
#include "render.h"
#include <cstdarg>
#include <cstdio>

namespace ucx_ib_dmabuf {
namespace {

using number = unsigned long long;

class writer {
public:
    explicit writer(std::span<char> out) : out_(out) {}

    void add(const char *pattern, ...) noexcept
        __attribute__((format(printf, 2, 3)))
    {
        const std::span<char> rest = out_.subspan(length_);
        va_list args;

        va_start(args, pattern);
        const int wanted = vsnprintf(rest.data(), rest.size(), pattern, args);
        va_end(args);
        // Truncated output could end in half a number.
        if ((wanted < 0) || (static_cast<size_t>(wanted) >= rest.size())) {
            whole_ = false;
            return;
        }
        length_ += static_cast<size_t>(wanted);
    }

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

    std::string_view result() const
    {
        return whole_ ? std::string_view(out_.data(), length_)
                      : std::string_view();
    }

private:
    const std::span<char> out_;
    size_t length_ = 0;
    bool whole_    = true;
};

// The value of a metric without a list.
void add_json(writer *to, const metric_info &of, const uint64_t *numbers)
{
    const char *comma = "";

    if (of.kind == metric_kind::histogram) {
        to->add("{\"sum_ns\": %llu, \"buckets\": [",
                number{numbers[of.buckets]});
        for (size_t i = 0; i < of.buckets; ++i, comma = ", ") {
            to->add("%s%llu", comma, number{numbers[i]});
        }
        to->add("]}");
    } else if (of.label(0).empty()) {
        to->add("%llu", number{*numbers});
    } else {
        to->add("{");
        for (size_t i = 0; i < of.size(); ++i) {
            if (numbers[i] != 0) {
                to->add_quoted(comma, part_of(of.values_of(0), ',', i));
                to->add(": %llu", number{numbers[i]});
                comma = ", ";
            }
        }
        to->add("}");
    }
}

// A list of objects, one for each pair of labels with a first number above 0.
void add_json_list(writer *to, std::span<const metric_info> columns,
                   const uint64_t *numbers)
{
    const char *comma = "";

    for (size_t i = 0; i < columns.front().size(); ++i) {
        if (numbers[columns.front().at + i] == 0) {
            continue;
        }
        to->add("%s", comma);
        comma = "{";
        each_label(columns.front(), i, [&](auto name, auto value) {
            to->add_quoted(comma, name);
            to->add_quoted(": ", value);
            comma = ", ";
        });
        for (const metric_info &each : columns) {
            to->add_quoted(", ", part_of(each.json_name(), '.', 1));
            to->add(": %llu", number{numbers[each.at + i]});
        }
        to->add("}");
        comma = ", ";
    }
}

// "name": value, ...
void add_json(writer *to, const metric_view &all)
{
    for (auto rest = all.infos; !rest.empty();) {
        const metric_info &first = rest.front();
        const auto list          = part_of(first.json_name(), '.', 0);
        size_t columns           = 0;
        to->add_quoted(", ", list);
        to->add(": ");
        if (list == first.json_name()) {
            columns = 1;
            add_json(to, first, all.numbers + first.at);
        } else {
            while ((columns < rest.size()) &&
                   (rest[columns].size() == first.size()) &&
                   (part_of(rest[columns].json_name(), '.', 0) == list)) {
                ++columns;
            }
            to->add("[");
            add_json_list(to, rest.first(columns), all.numbers);
            to->add("]");
        }
        rest = rest.subspan(columns);
    }
}

// Prometheus' text of one process.
class exposition {
public:
    exposition(std::span<char> out, pid_t pid, std::string_view program)
        : to_(out), pid_(pid), program_(program)
    {
    }

    // Adds each metric. `each_row` calls its argument with each row, or with
    // nullptr for the process itself, and with the numbers.
    template <typename EachRow>
    void add(const char *prefix, std::span<const metric_info> infos,
             const EachRow &each_row)
    {
        for (const metric_info &each : infos) {
            const bool counts  = each.kind == metric_kind::counter;
            const bool is_time = each.kind == metric_kind::histogram;
            snprintf(name_, sizeof(name_), "%.40s%.23s%s", prefix, each.name,
                     is_time  ? "_seconds"
                     : counts ? "_total"
                              : "");
            to_.add("# HELP %s %s.\n", name_, each.help);
            to_.add("# TYPE %s %s\n", name_,
                    is_time  ? "histogram"
                    : counts ? "counter"
                             : "gauge");
            each_row([&](const pair_row *row, const uint64_t *numbers) {
                is_time ? add_times(numbers + each.at)
                        : add_samples(each, row, numbers + each.at);
            });
        }
    }
    std::string_view result() const { return to_.result(); }

private:
    static constexpr uint64_t billion = 1'000'000'000;

    void begin(const char *part = "")
    {
        to_.add("%s%s{pid=\"%d\"", name_, part, pid_);
        to_.add_quoted(",program=", program_, "\\n");
    }
    void add_samples(const metric_info &of, const pair_row *row,
                     const uint64_t *numbers)
    {
        for (size_t i = 0; i < of.size(); ++i) {
            begin();
            if (row != nullptr) {
                to_.add_quoted(",nic=", row->nic_name(), "\\n");
                to_.add(",gpu=\"%d\"", row->gpu_number());
            }
            if (of.labels[0] != '\0') {
                each_label(of, i, [this](auto name, auto value) {
                    to_.add(",%.*s", static_cast<int>(name.size()),
                            name.data());
                    to_.add_quoted("=", value);
                });
            }
            to_.add("} %llu\n", number{numbers[i]});
        }
    }
    // In seconds, by Prometheus' convention. The bounds are exact.
    void add_times(const uint64_t *numbers)
    {
        constexpr size_t buckets = metric_info::buckets;
        uint64_t so_far          = 0;

        for (size_t i = 0; i < buckets; ++i) {
            const uint64_t bound = uint64_t{1} << (metric_info::first_log + i);
            so_far += numbers[i];
            begin("_bucket");
            if (i + 1 < buckets) {
                to_.add(",le=\"%llu.%09llu\"", number{bound / billion},
                        number{bound % billion});
            } else {
                to_.add(",le=\"+Inf\"");
            }
            to_.add("} %llu\n", number{so_far});
        }
        begin("_sum");
        to_.add("} %llu.%09llu\n", number{numbers[buckets] / billion},
                number{numbers[buckets] % billion});
        begin("_count");
        to_.add("} %llu\n", number{so_far});
    }

    writer to_;
    const pid_t pid_;
    const std::string_view program_;
    char name_[96] = "";
};

} // namespace

std::string_view render_json(const described_counters &now, pid_t pid,
                             std::span<char> out) noexcept
{
    writer to(out);
    const char *comma = "";

    to.add("{\"pid\": %d", pid);
    add_json(&to, now.of_process());
    if (now.now.hooks_missing.is_written()) {
        to.add_quoted(", \"hooks_missing\": ", now.now.hooks_missing.text);
    }
    to.add(", \"pairs\": [");
    now.each_pair([&](const pair_row &row) {
        to.add("%s{", comma);
        to.add_quoted("\"nic\": ", row.nic_name());
        to.add(", \"gpu\": %d", row.gpu_number());
        add_json(&to, now.of(row));
        to.add("}");
        comma = ", ";
    });
    to.add("]}\n");
    return to.result();
}

std::string_view render_prometheus(const described_counters &now, pid_t pid,
                                   const char *program,
                                   std::span<char> out) noexcept
{
    // The name may be as long as all arguments of the program.
    exposition to(out, pid, std::string_view(program).substr(0, 63));
    bool any_pair = false;

    to.add("ucx_ib_dmabuf_", now.of_process().infos,
           [&](const auto &call) { call(nullptr, now.now.numbers); });
    now.each_pair([&](const pair_row &) { any_pair = true; });
    if (any_pair) {
        to.add("ucx_ib_dmabuf_pair_", now.of(now.now.pairs[0]).infos,
               [&](const auto &call) {
                   now.each_pair(
                       [&](const pair_row &row) { call(&row, row.numbers); });
               });
    }
    return to.result();
}

} // namespace ucx_ib_dmabuf
