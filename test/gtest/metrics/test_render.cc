// SPDX-License-Identifier: BSD-3-Clause
//
// The counters as JSON and as Prometheus' text, and what is said of them.
#include "prometheus.h"
#include <array>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <uct/ib_dmabuf/metrics/render.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

// Each has another value, the first of them 1000.
metrics numbered()
{
    metrics made;

    for (size_t i = 0; i < metric_count; ++i) {
        made.values[i] = 1000 + i;
    }
    return made;
}

std::string json(const metrics &now)
{
    static std::array<char, json_max> memory;
    return std::string(render_json(now, {42, "a"}, memory));
}

std::string prometheus(const metrics &now, const char *program = "a")
{
    static std::array<char, prometheus_max> memory;
    return std::string(render_prometheus(now, {42, program}, memory));
}

TEST(test_render, json_has_each_metric_by_its_name)
{
    const std::string line = json(numbered());

    EXPECT_TRUE(line.starts_with("{\"pid\": 42, \"hits\": 1000, ")) << line;
    EXPECT_TRUE(line.ends_with("}\n")) << line;
    EXPECT_EQ(line.size() - 1, line.find('\n'));
    for (const metric_info &each : all_metrics) {
        const std::string wanted = std::string(", \"") + each.name +
                                   "\": " + std::to_string(numbered()[each.id]);
        EXPECT_NE(std::string::npos, line.find(wanted)) << wanted;
    }
}

TEST(test_render, prometheus_has_each_metric_once)
{
    const auto found = parse_prometheus(prometheus(numbered()));

    ASSERT_LE(metric_count, found.size());
    for (size_t i = 0; i < metric_count; ++i) {
        const bool counts = all_metrics[i].kind == metric_kind::counter;
        EXPECT_EQ(std::string("ucx_ib_dmabuf_") + all_metrics[i].name +
                      (counts ? "_total" : ""),
                  found[i].name);
        EXPECT_EQ(counts ? "counter" : "gauge", found[i].type);
        EXPECT_EQ(std::string(all_metrics[i].help) + ".", found[i].help);
        ASSERT_EQ(1u, found[i].samples.size());
        EXPECT_EQ(1000.0 + static_cast<double>(i), found[i].samples[0].value);
        EXPECT_EQ("42", found[i].samples[0].labels.at("pid"));
        EXPECT_EQ("a", found[i].samples[0].labels.at("program"));
    }
}

// Of Prometheus' metric of that name, the samples' values in order.
std::vector<double> values_of(const std::string &name, const metrics &now)
{
    std::vector<double> values;
    for (const auto &each : parse_prometheus(prometheus(now))) {
        for (const auto &sample : each.samples) {
            if (sample.name == "ucx_ib_dmabuf_" + name) {
                values.push_back(sample.value);
            }
        }
    }
    return values;
}

TEST(test_render, times_are_histograms)
{
    constexpr size_t last = histogram::buckets - 1;
    metrics now;

    now.export_time.each[0]       = 1;
    now.export_time.each[2]       = 2;
    now.export_time.each[last]    = 4;
    now.export_time.sum           = 12'345'678'901;
    now.registration_time.each[1] = 8;
    const std::vector<double> buckets =
        values_of("export_time_seconds_bucket", now);
    ASSERT_EQ(histogram::buckets, buckets.size());
    EXPECT_EQ(1, buckets[1]);
    EXPECT_EQ(3, buckets[2]);
    EXPECT_EQ(3, buckets[last - 1]);
    EXPECT_EQ(7, buckets[last]);
    EXPECT_EQ(12.345678901, values_of("export_time_seconds_sum", now)[0]);
    EXPECT_EQ(8, values_of("registration_time_seconds_count", now)[0]);
    const std::string line = json(now);
    EXPECT_NE(std::string::npos,
              line.find("\"export_time\": {\"sum_ns\": 12345678901, "
                        "\"buckets\": [1, 0, 2, 0, "))
        << line;
    EXPECT_NE(std::string::npos, line.find("0, 4]}")) << line;
}

TEST(test_render, fallbacks_are_told_by_way_and_cause)
{
    metrics now;
    now.fallbacks[1][1] = {3, 4096}; // ucp, no_room

    const std::string line = json(now), text = prometheus(now);
    EXPECT_NE(std::string::npos,
              line.find("\"fallbacks\": [{\"way\": \"ucp\", \"cause\": "
                        "\"no_room\", \"operations\": 3, \"bytes\": 4096}]}"))
        << line;
    EXPECT_NE(std::string::npos,
              text.find("way=\"ucp\",cause=\"no_room\"} 3\n"));
    EXPECT_NE(std::string::npos,
              text.find("way=\"ucp\",cause=\"no_room\"} 4096\n"));
    EXPECT_EQ(fallback_ways * fallback_causes,
              values_of("fallback_bytes_total", now).size());
}

// Two of them, in a table.
const pair_table &two_pairs()
{
    static pair_table all;
    all.clear();
    all.of("mlx5_0", 1).add_region(memory_path::standard, 4096);
    all.of("mlx5_0", 1).add_region(memory_path::standard, 8192);
    all.of("mlx5_0", 1).end_region(8192);
    all.of("mlx5_1", -1)
        .add_fallback(fallback_way::ucp, fallback_cause::no_room, 100);
    all.of("mlx5_2", 0); // which has counted nothing
    return all;
}

TEST(test_render, pairs_are_told_in_json)
{
    metrics now;
    now.pairs = &two_pairs();

    const std::string line = json(now);
    EXPECT_TRUE(line.ends_with(
        ", \"pairs\": ["
        "{\"nic\": \"mlx5_0\", \"gpu\": 1, \"registrations\": 2, "
        "\"deregistrations\": 1, \"invalidations\": 0, \"evictions\": 0, "
        "\"failures\": 0, \"regions\": 1, \"registered_bytes\": 4096, "
        "\"path_bytes\": {\"standard\": 12288}, \"fallback_causes\": {}}, "
        "{\"nic\": \"mlx5_1\", \"gpu\": -1, \"registrations\": 0, "
        "\"deregistrations\": 0, \"invalidations\": 0, \"evictions\": 0, "
        "\"failures\": 0, \"regions\": 0, \"registered_bytes\": 0, "
        "\"path_bytes\": {\"ucp\": 100}, "
        "\"fallback_causes\": {\"no_room\": 1}}]}\n"))
        << line;
}

TEST(test_render, pairs_are_labels_for_prometheus)
{
    metrics now;
    const pair_table none;

    now.pairs = &two_pairs();
    for (const pair_metric_info &each : all_pair_metrics) {
        const bool counts = each.kind == metric_kind::counter;
        EXPECT_EQ(2u, values_of(std::string("pair_") + each.name +
                                    (counts ? "_total" : ""),
                                now)
                          .size());
    }
    EXPECT_EQ(2 * memory_paths, values_of("pair_path_bytes_total", now).size());
    const std::string text = prometheus(now);
    for (const char *wanted :
         {"pair_registrations_total{pid=\"42\",program=\"a\",nic=\"mlx5_0\","
          "gpu=\"1\"} 2\n",
          "nic=\"mlx5_0\",gpu=\"1\",path=\"standard\"} 12288\n",
          "nic=\"mlx5_1\",gpu=\"-1\",cause=\"no_room\"} 1\n"}) {
        EXPECT_NE(std::string::npos, text.find(wanted)) << text;
    }
    now.pairs = &none;
    EXPECT_EQ(prometheus(metrics()), prometheus(now));
}

TEST(test_render, what_hooks_lack_is_a_string)
{
    metrics now;

    EXPECT_EQ(std::string::npos, json(now).find("hooks_missing"));
    now.hooks_missing = "\"a\" \\b\n\033[2J";
    EXPECT_NE(std::string::npos,
              json(now).find("\"hooks_missing\": \"\\\"a\\\" \\\\b??[2J\""))
        << json(now);
}

TEST(test_histogram, buckets_have_bounds)
{
    constexpr size_t last = histogram::buckets - 1;
    const struct {
        uint64_t value;
        size_t bucket;
    } all[] = {{0, 0},
               {1, 0},
               {1024, 0},
               {1025, 1},
               {2048, 1},
               {2049, 2},
               {histogram::bound(last - 1), last - 1},
               {histogram::bound(last - 1) + 1, last},
               {UINT64_MAX, last}};

    for (const auto &each : all) {
        histogram one;
        one.add(each.value);
        const histogram::counts now = one.read();
        EXPECT_EQ(1u, now.each[each.bucket]) << each.value;
        EXPECT_EQ(each.value, now.sum);
        one.clear();
        EXPECT_EQ(0u, one.read().each[each.bucket] + one.read().sum);
    }
}

TEST(test_render, any_program_is_a_label)
{
    const auto found =
        parse_prometheus(prometheus(metrics(), "a \"b\" \\c\nd\t\xff"));

    EXPECT_EQ("a \"b\" \\c\nd??", found[0].samples[0].labels.at("program"));
}

// As many as there may be, all of them with the largest of numbers and names.
const pair_table &most_pairs()
{
    static pair_table all;

    for (int i = 0; i <= int{pair_table::max_pairs}; ++i) {
        pair_row &row = all.of(std::string(63, '"').c_str(), INT_MIN + i);
        for (size_t j = 0; j < ladder_steps; ++j) {
            row.add_region(static_cast<memory_path>(j), UINT64_MAX);
        }
        for (size_t j = 0; j < pair_metric_count; ++j) {
            row[static_cast<pair_metric>(j)] = UINT64_MAX;
        }
        for (size_t j = 0; j < fallback_ways; ++j) { // and no more: sums
            row.of(static_cast<fallback_way>(j), fallback_cause{}).bytes =
                UINT64_MAX;
        }
        for (size_t j = 0; j < fallback_causes; ++j) {
            row.of(fallback_way{}, static_cast<fallback_cause>(j)).operations =
                UINT64_MAX;
        }
    }
    return all;
}

TEST(test_render, the_largest_fits)
{
    metrics all;

    all.values.fill(UINT64_MAX);
    for (histogram::counts *each : {&all.export_time, &all.registration_time}) {
        each->each.fill(UINT64_MAX / histogram::buckets);
        each->sum = UINT64_MAX;
    }
    for (auto &way : all.fallbacks) {
        way.fill({UINT64_MAX, UINT64_MAX});
    }
    const std::string why(255, '"');
    all.hooks_missing = why.c_str();
    all.pairs         = &most_pairs();
    EXPECT_NE("", json(all));
    const std::string program(4096, '"');
    const std::string text = prometheus(all, program.c_str());
    EXPECT_NO_THROW(parse_prometheus(text));
    EXPECT_EQ(program.substr(0, 63),
              parse_prometheus(text)[0].samples[0].labels.at("program"));
}

TEST(test_render, there_is_no_half_text)
{
    const std::string all = prometheus(numbered());
    std::vector<char> memory(all.size() + 1);

    for (size_t size = 0; size <= all.size(); ++size) {
        EXPECT_TRUE(
            render_prometheus(numbered(), {42, "a"}, {memory.data(), size})
                .empty());
    }
    EXPECT_EQ(all, render_prometheus(numbered(), {42, "a"}, memory));
}

// The parser that all of this relies on.
TEST(test_prometheus, what_is_wrong_is_seen)
{
    const std::string head = "# HELP a_total b\n# TYPE a_total counter\n";

    EXPECT_EQ(1u, parse_prometheus(head + "a_total 1\n").size());
    for (const std::string &wrong :
         {head, head + "a_total 1", head + "a_total 1\na_total 1\n",
          head + "a_total{b=\"c\" 1\n", head + "a_total{b=\"\\c\"} 1\n",
          head + "a_total one\n", head + "b_total 1\n",
          head + "a_total 1\n" + head + "a_total 1\n",
          std::string("# HELP a b\n# TYPE a counter\na 1\n"),
          std::string("# TYPE a gauge\n# HELP a b\na 1\n"),
          std::string("# HELP a_total b\n# TYPE a_total gauge\na_total 1\n"),
          std::string("# HELP 1a b\n# TYPE 1a gauge\n1a 1\n")}) {
        EXPECT_THROW(parse_prometheus(wrong), std::runtime_error) << wrong;
    }
}

// How docs/info.md tells of it.
template <typename Info>
std::string documented(const std::string &name, const Info &of)
{
    const bool counts = of.kind == metric_kind::counter;
    return std::string("| `")
        .append(name)
        .append(counts ? "` | counter | " : "` | gauge | ")
        .append(of.unit)
        .append(" | ")
        .append(of.help)
        .append(" |");
}

// The tables of metrics have the rows, word by word.
TEST(test_documentation, has_each_metric)
{
    const char *top = getenv("top_srcdir");
    ASSERT_NE(nullptr, top);
    std::ifstream page(std::string(top) + "/docs/info.md");
    std::vector<std::string> found;

    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("| `") && (line.find("| counter |") != line.npos ||
                                        line.find("| gauge |") != line.npos)) {
            found.push_back(line);
        }
    }
    std::vector<std::string> wanted;
    wanted.reserve(metric_count + pair_metric_count);
    for (const metric_info &each : all_metrics) {
        wanted.push_back(documented(each.name, each));
    }
    for (const pair_metric_info &each : all_pair_metrics) {
        wanted.push_back(documented(std::string("pair_") + each.name, each));
    }
    EXPECT_EQ(wanted, found);
}

} // namespace
