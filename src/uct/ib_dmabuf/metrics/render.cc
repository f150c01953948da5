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
        // What does not fit would be half a number.
        if ((wanted < 0) || (static_cast<size_t>(wanted) >= rest.size())) {
            whole_ = false;
            return;
        }
        length_ += static_cast<size_t>(wanted);
    }

    // In quotes: UTF-8, of which we know ASCII only.
    void add_text(std::string_view value, const char *newline) noexcept
    {
        for (const char each : value) {
            if ((each == '\\') || (each == '"')) {
                add("\\%c", each);
            } else if (each == '\n') {
                add("%s", newline);
            } else {
                add("%c", ((each < ' ') || (each > '~')) ? '?' : each);
            }
        }
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

void add_json(writer *to, const char *name, const histogram::counts &times)
{
    to->add(", \"%s\": {\"sum_ns\": %llu, \"buckets\": [", name,
            number{times.sum});
    for (size_t i = 0; i < times.each.size(); ++i) {
        to->add("%s%llu", (i == 0) ? "" : ", ", number{times.each[i]});
    }
    to->add("]}");
}

void add_json(writer *to, const fallback_counts &all)
{
    const char *comma = "";

    to->add(", \"fallbacks\": [");
    for (size_t way = 0; way < fallback_ways; ++way) {
        for (size_t why = 0; why < fallback_causes; ++why) {
            const auto &each = all[way][why];
            if (each.operations == 0) {
                continue;
            }
            to->add("%s{\"way\": \"%s\", \"cause\": \"%s\", "
                    "\"operations\": %llu, \"bytes\": %llu}",
                    comma, fallback_way_names[way], fallback_cause_names[why],
                    number{each.operations}, number{each.bytes});
            comma = ", ";
        }
    }
    to->add("]");
}

// "name": "value" of any bytes.
void add_json_text(writer *to, const char *name, const char *value)
{
    to->add("\"%s\": \"", name);
    to->add_text(value, "?");
    to->add("\"");
}

// "name": {...}, those that are not 0.
template <typename Counts, typename Names>
void add_json(writer *to, const char *name, const Counts &counts,
              const Names &names)
{
    const char *comma = "";

    to->add(", \"%s\": {", name);
    for (size_t i = 0; i < counts.size(); ++i) {
        if (const number count = counts[i]; count != 0) {
            to->add("%s\"%s\": %llu", comma, names[i], count);
            comma = ", ";
        }
    }
    to->add("}");
}

void add_json(writer *to, const pair_table &all)
{
    const char *comma = "{";

    to->add(", \"pairs\": [");
    all.each([&](const pair_row &row) {
        to->add("%s", comma);
        add_json_text(to, "nic", row.nic());
        to->add(", \"gpu\": %d", row.gpu());
        for (size_t i = 0; i < pair_metric_count; ++i) {
            to->add(", \"%s\": %llu", all_pair_metrics[i].name,
                    number{row.values()[i]});
        }
        add_json(to, "path_bytes", row.bytes(), memory_path_names);
        add_json(to, "fallback_causes", row.fallbacks(), fallback_cause_names);
        to->add("}");
        comma = ", {";
    });
    to->add("]");
}

// Prometheus' text of one process.
class exposition {
public:
    exposition(std::span<char> out, const process_name &whose)
        : to_(out), whose_(whose)
    {
    }

    void add(const metric_info &what, uint64_t value)
    {
        const char *ending = head(what.name, what.kind, what.help);

        begin(what.name, ending);
        end(value);
    }
    // In seconds, as is the custom: the bounds are not cut off.
    void add(const char *name, const char *help, const histogram::counts &times)
    {
        uint64_t so_far = 0;

        head(name, "_seconds", "histogram", help);
        for (size_t i = 0; i < times.each.size(); ++i) {
            so_far += times.each[i];
            begin(name, "_seconds_bucket");
            if (i + 1 < times.each.size()) {
                const uint64_t bound = histogram::bound(i);
                to_.add(",le=\"%llu.%09llu\"", number{bound / billion},
                        number{bound % billion});
            } else {
                to_.add(",le=\"+Inf\"");
            }
            end(so_far);
        }
        begin(name, "_seconds_sum");
        to_.add("} %llu.%09llu\n", number{times.sum / billion},
                number{times.sum % billion});
        begin(name, "_seconds_count");
        end(so_far);
    }
    void add(const char *name, const char *help, const fallback_counts &all,
             uint64_t fallback_count<uint64_t>::*which)
    {
        head(name, "_total", "counter", help);
        for (size_t way = 0; way < fallback_ways; ++way) {
            for (size_t why = 0; why < fallback_causes; ++why) {
                begin(name, "_total");
                to_.add(",way=\"%s\",cause=\"%s\"", fallback_way_names[way],
                        fallback_cause_names[why]);
                end(all[way][why].*which);
            }
        }
    }

    void add(const pair_table &all)
    {
        bool any = false;

        all.each([&](const pair_row &) { any = true; });
        if (!any) {
            return; // nor heads
        }
        prefix_ = pair_prefix;
        for (const pair_metric_info &each : all_pair_metrics) {
            const char *ending = head(each.name, each.kind, each.help);
            all.each([&](const pair_row &row) {
                begin(each.name, ending, row);
                end(row.values()[static_cast<size_t>(each.id)]);
            });
        }
        add(all, "path_bytes",
            "Bytes that were to be registered, by the path that they went",
            &pair_row::bytes, "path", memory_path_names);
        add(all, "fallback_operations",
            "Requests to register them that went another way",
            &pair_row::fallbacks, "cause", fallback_cause_names);
        prefix_ = process_prefix;
    }

    std::string_view result() const { return to_.result(); }

private:
    static constexpr uint64_t billion      = 1'000'000'000;
    static constexpr char process_prefix[] = "ucx_ib_dmabuf_";
    static constexpr char pair_prefix[]    = "ucx_ib_dmabuf_pair_";

    void head(const char *name, const char *ending, const char *type,
              const char *help)
    {
        to_.add("# HELP %s%s%s %s.\n", prefix_, name, ending, help);
        to_.add("# TYPE %s%s%s %s\n", prefix_, name, ending, type);
    }
    // What its name ends with.
    const char *head(const char *name, metric_kind kind, const char *help)
    {
        const bool counts  = kind == metric_kind::counter;
        const char *ending = counts ? "_total" : "";

        head(name, ending, counts ? "counter" : "gauge", help);
        return ending;
    }
    void begin(const char *name, const char *ending)
    {
        to_.add("%s%s%s{pid=\"%lld\",program=\"", prefix_, name, ending,
                static_cast<long long>(whose_.pid));
        // It may be as long as all of its arguments.
        to_.add_text(std::string_view(whose_.program).substr(0, 63), "\\n");
        to_.add("\"");
    }
    void begin(const char *name, const char *ending, const pair_row &row)
    {
        begin(name, ending);
        to_.add(",nic=\"");
        to_.add_text(row.nic(), "\\n");
        to_.add("\",gpu=\"%d\"", row.gpu());
    }
    template <typename Counts, typename Names>
    void add(const pair_table &all, const char *name, const char *help,
             Counts (pair_row::*counts)() const noexcept, const char *label,
             const Names &names)
    {
        head(name, "_total", "counter", help);
        all.each([&](const pair_row &row) {
            const Counts all_counts = (row.*counts)();
            for (size_t i = 0; i < names.size(); ++i) {
                begin(name, "_total", row);
                to_.add(",%s=\"%s\"", label, names[i]);
                end(all_counts[i]);
            }
        });
    }
    void end(uint64_t value) { to_.add("} %llu\n", number{value}); }

    writer to_;
    const process_name whose_;
    const char *prefix_ = process_prefix; // of names
};

} // namespace

std::string_view render_json(const metrics &now, const process_name &whose,
                             std::span<char> out) noexcept
{
    writer to(out);

    to.add("{\"pid\": %lld", static_cast<long long>(whose.pid));
    for (const metric_info &each : all_metrics) {
        to.add(", \"%s\": %llu", each.name, number{now[each.id]});
    }
    add_json(&to, "export_time", now.export_time);
    add_json(&to, "registration_time", now.registration_time);
    add_json(&to, now.fallbacks);
    if (now.hooks_missing != nullptr) {
        to.add(", ");
        add_json_text(&to, "hooks_missing", now.hooks_missing);
    }
    if (now.pairs != nullptr) {
        add_json(&to, *now.pairs);
    }
    to.add("}\n");
    return to.result();
}

std::string_view render_prometheus(const metrics &now,
                                   const process_name &whose,
                                   std::span<char> out) noexcept
{
    exposition to(out, whose);

    for (const metric_info &each : all_metrics) {
        to.add(each, now[each.id]);
    }
    to.add("export_time", "Time that exports of dma-bufs took",
           now.export_time);
    to.add("registration_time", "Time that registrations of dma-bufs took",
           now.registration_time);
    to.add("fallback_operations",
           "Requests to register GPU memory that went another way",
           now.fallbacks, &fallback_count<uint64_t>::operations);
    to.add("fallback_bytes", "Length of these requests in bytes", now.fallbacks,
           &fallback_count<uint64_t>::bytes);
    if (now.pairs != nullptr) {
        to.add(*now.pairs);
    }
    return to.result();
}

} // namespace ucx_ib_dmabuf
