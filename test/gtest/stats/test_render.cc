// SPDX-License-Identifier: BSD-3-Clause
//
// The counters as JSON and as Prometheus' text, and their documentation.
#include "fixture.h"
#include <array>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <regex>
#include <stdexcept>
#include <string>
#include <uct/ib_dmabuf/stats/render.h>
#include <unistd.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

class test_render : public testing::Test {
protected:
    ~test_render() override
    {
        free(process_counters.hooks_missing);
        forget_pairs(&process_counters);
    }

    static std::string json() { return std::string(render_json(memory_)); }
    static std::string prometheus(const char *program = "a")
    {
        return std::string(render_prometheus(program, memory_));
    }
    // Sets the counters to 1000, 1001 and so on.
    static void number()
    {
        std::iota(std::begin(process_counters.numbers),
                  std::end(process_counters.numbers), 1000);
    }
    // Returns the values of a Prometheus metric's samples, in order.
    static std::vector<double> values_of(const std::string &name)
    {
        std::vector<double> values;
        for (const auto &each : parse_prometheus(prometheus())) {
            for (const auto &sample : each.samples) {
                if (sample.name == "ucx_ib_dmabuf_" + name) {
                    values.push_back(sample.value);
                }
            }
        }
        return values;
    }

    const std::string pid_ = std::to_string(getpid());
    static inline std::array<char, prometheus_max> memory_;
};

constexpr size_t scalars = 17; // the leading metrics

TEST_F(test_render, json_has_each_metric_by_its_name)
{
    number();
    const std::string line = json();

    EXPECT_TRUE(line.starts_with("{\"pid\": " + pid_ + ", \"hits\": 1000, "))
        << line;
    EXPECT_TRUE(line.ends_with("}\n")) << line;
    EXPECT_EQ(line.size() - 1, line.find('\n'));
    for (size_t i = 0; i < scalars; ++i) {
        const std::string wanted = std::string(", \"") + process_infos[i].name +
                                   "\": " + std::to_string(1000 + i);
        EXPECT_NE(std::string::npos, line.find(wanted)) << wanted;
    }
}

TEST_F(test_render, prometheus_has_each_metric_once)
{
    number();
    const auto found = parse_prometheus(prometheus());

    ASSERT_EQ(std::size(process_infos), found.size());
    for (size_t i = 0; i < scalars; ++i) {
        const bool counts = process_infos[i].kind == metric_kind::counter;
        EXPECT_EQ(std::string("ucx_ib_dmabuf_") + process_infos[i].name +
                      (counts ? "_total" : ""),
                  found[i].name);
        EXPECT_EQ(counts ? "counter" : "gauge", found[i].type);
        EXPECT_EQ(std::string(process_infos[i].help) + ".", found[i].help);
        ASSERT_EQ(1u, found[i].samples.size());
        EXPECT_EQ(1000.0 + static_cast<double>(i), found[i].samples[0].value);
        EXPECT_EQ(pid_, found[i].samples[0].labels.at("pid"));
        EXPECT_EQ("a", found[i].samples[0].labels.at("program"));
    }
}

TEST_F(test_render, times_are_histograms)
{
    constexpr size_t last = metric_info::buckets - 1;
    const auto export_ns  = [](uint64_t each, size_t bucket) {
        process_counters.add("export_time", each, bucket);
    };

    export_ns(1, 0);
    export_ns(2, 2);
    export_ns(4, last);
    export_ns(12'345'678'901, last + 1);
    process_counters.add("registration_time", 8, 1);
    const std::vector<double> buckets = values_of("export_time_seconds_bucket");
    ASSERT_EQ(metric_info::buckets, buckets.size());
    EXPECT_EQ(1, buckets[1]);
    EXPECT_EQ(3, buckets[2]);
    EXPECT_EQ(3, buckets[last - 1]);
    EXPECT_EQ(7, buckets[last]);
    EXPECT_EQ(12.345678901, values_of("export_time_seconds_sum")[0]);
    EXPECT_EQ(8, values_of("registration_time_seconds_count")[0]);
    const std::string line = json();
    EXPECT_NE(std::string::npos,
              line.find("\"export_time\": {\"sum_ns\": 12345678901, "
                        "\"buckets\": [1, 0, 2, 0, "))
        << line;
    EXPECT_NE(std::string::npos, line.find("0, 4]}")) << line;
}

TEST_F(test_render, fallbacks_are_told_by_way_and_cause)
{
    process_counters.add("fallback_operations", 3, 5); // ucp, no_room
    process_counters.add("fallback_bytes", 4096, 5);
    process_counters.add("fallback_operations", 1, 11); // error, other

    const std::string line = json(), text = prometheus();
    EXPECT_NE(
        std::string::npos,
        line.find("\"fallbacks\": [{\"way\": \"ucp\", \"cause\": \"no_room\", "
                  "\"operations\": 3, \"bytes\": 4096}, {\"way\": \"error\", "
                  "\"cause\": \"other\", \"operations\": 1, \"bytes\": 0}], "))
        << line;
    EXPECT_NE(std::string::npos,
              text.find("way=\"ucp\",cause=\"no_room\"} 3\n"));
    EXPECT_NE(std::string::npos,
              text.find("way=\"ucp\",cause=\"no_room\"} 4096\n"));
    EXPECT_EQ(12u, values_of("fallback_bytes_total").size());
}

// Counts for two pairs of the table.
void count_two_pairs()
{
    auto &all = process_counters;
    all.of("mlx5_0", 1).add_region(0, 4096);
    all.of("mlx5_0", 1).add_region(0, 8192);
    all.of("mlx5_0", 1).end_region(8192);
    all.add_fallback(fallback_way::ucp, fallback_cause::no_room, "mlx5_1", -1,
                     100);
    all.of("mlx5_2", 0); // stays at zero
}

TEST_F(test_render, pairs_are_told_in_json)
{
    count_two_pairs();
    const std::string line = json();
    EXPECT_TRUE(line.ends_with(
        ", \"pairs\": ["
        "{\"nic\": \"mlx5_1\", \"gpu\": -1, \"registrations\": 0, "
        "\"deregistrations\": 0, \"invalidations\": 0, \"evictions\": 0, "
        "\"failures\": 0, \"regions\": 0, \"registered_bytes\": 0, "
        "\"path_bytes\": {\"ucp\": 100}, "
        "\"fallback_causes\": {\"no_room\": 1}}, "
        "{\"nic\": \"mlx5_0\", \"gpu\": 1, \"registrations\": 2, "
        "\"deregistrations\": 1, \"invalidations\": 0, \"evictions\": 0, "
        "\"failures\": 0, \"regions\": 1, \"registered_bytes\": 4096, "
        "\"path_bytes\": {\"standard\": 12288}, \"fallback_causes\": {}}]}\n"))
        << line;
}

TEST_F(test_render, pairs_are_labels_for_prometheus)
{
    EXPECT_EQ(std::string::npos, prometheus().find("_pair_"));
    count_two_pairs();
    for (const metric_info &each : pair_infos) {
        const bool counts = each.kind == metric_kind::counter;
        EXPECT_EQ(2 * each.size(), values_of(std::string("pair_") + each.name +
                                             (counts ? "_total" : ""))
                                       .size());
    }
    const std::string text = prometheus();
    for (const char *wanted :
         {",program=\"a\",nic=\"mlx5_0\",gpu=\"1\"} 2\n",
          "nic=\"mlx5_0\",gpu=\"1\",path=\"standard\"} 12288\n",
          "nic=\"mlx5_1\",gpu=\"-1\",cause=\"no_room\"} 1\n"}) {
        EXPECT_NE(std::string::npos, text.find(wanted)) << text;
    }
}

TEST_F(test_render, what_hooks_lack_is_a_string)
{
    EXPECT_EQ(std::string::npos, json().find("hooks_missing"));
    process_counters.set_hooks_missing("\"a\" \\b\n\033[2J");
    process_counters.set_hooks_missing("the second one");
    EXPECT_NE(std::string::npos,
              json().find("\"hooks_missing\": \"\\\"a\\\" \\\\b??[2J\""))
        << json();
}

TEST_F(test_render, buckets_have_bounds)
{
    constexpr size_t last = metric_info::buckets - 1;
    const struct {
        uint64_t value;
        size_t bucket;
    } all[] = {{0, 0},
               {1, 0},
               {1024, 0},
               {1025, 1},
               {2048, 1},
               {2049, 2},
               {uint64_t{1} << 32, last - 1},
               {(uint64_t{1} << 32) + 1, last},
               {UINT64_MAX, last}};

    for (const auto &each : all) {
        process_counters.clear();
        process_counters.add_time("export_time", each.value);
        EXPECT_EQ(1u, process_counters.get("export_time", each.bucket))
            << each.value;
        EXPECT_EQ(each.value, process_counters.get("export_time", last + 1));
    }
}

TEST_F(test_render, any_program_is_a_label)
{
    const auto found = parse_prometheus(prometheus("a \"b\" \\c\nd\t\xff"));

    EXPECT_EQ("a \"b\" \\c\nd??", found[0].samples[0].labels.at("program"));
}

// The maximum of rows, with the largest numbers and the longest names.
TEST_F(test_render, the_largest_fits)
{
    const std::string nic(63, '"'), why(255, '"');

    for (size_t i = 0; i < std::size(process_counters.numbers); ++i) {
        const bool adds_up          = (i >= scalars) && (i < scalars + 50);
        process_counters.numbers[i] = adds_up ? UINT64_MAX / 24 : UINT64_MAX;
    }
    for (int i = 0; i <= int{counters::max_pairs}; ++i) {
        std::ranges::fill(process_counters.of(nic.c_str(), INT_MIN + i).numbers,
                          UINT64_MAX);
    }
    process_counters.set_hooks_missing(why.c_str());
    EXPECT_NE("", render_json(std::span(memory_).first<json_max>()));
    const std::string program(4096, '"');
    const std::string text = prometheus(program.c_str());
    EXPECT_NO_THROW(parse_prometheus(text));
    EXPECT_EQ(program.substr(0, 63),
              parse_prometheus(text)[0].samples[0].labels.at("program"));
}

TEST_F(test_render, there_is_no_half_text)
{
    number();
    const std::string all = prometheus();
    std::vector<char> memory(all.size() + 1);

    for (size_t size = 0; size <= all.size(); ++size) {
        EXPECT_TRUE(render_prometheus("a", {memory.data(), size}).empty());
    }
    EXPECT_EQ(all, render_prometheus("a", memory));
}

// The parser that these tests rely on.
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

// Returns the metric's row in docs/info.md, without the unit.
std::string documented(const std::string &name, const metric_info &of)
{
    const bool counts = of.kind == metric_kind::counter;
    return "| `" + name + (counts ? "` | counter | " : "` | gauge | ") +
           of.help + " |";
}

// docs/info.md must list each metric, word by word.
TEST(test_documentation, has_each_metric)
{
    const char *top = getenv("top_srcdir");
    ASSERT_NE(nullptr, top);
    std::ifstream page(std::string(top) + "/docs/info.md");
    std::vector<std::string> found;

    for (std::string line; std::getline(page, line);) {
        if (line.starts_with("| `") && (line.find("| counter |") != line.npos ||
                                        line.find("| gauge |") != line.npos)) {
            found.push_back(std::regex_replace(
                line, std::regex("(counter|gauge) \\| [^|]* \\|"), "$1 |"));
        }
    }
    std::vector<std::string> wanted;
    for (const metric_info &each : std::span(process_infos).first<scalars>()) {
        wanted.push_back(documented(each.name, each));
    }
    for (const metric_info &each : std::span(pair_infos).first<7>()) {
        wanted.push_back(documented(std::string("pair_") + each.name, each));
    }
    EXPECT_EQ(wanted, found);
}

} // namespace
