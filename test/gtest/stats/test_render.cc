// SPDX-License-Identifier: BSD-3-Clause
//
// The counters as JSON and as Prometheus' text, and their documentation.
#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <uct/ib_dmabuf/stats/stats_file.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

struct sample {
    std::string name, labels; // "{...}"
    double value;
};

// Parses Prometheus' text format, version 0.0.4, more strictly than Prometheus:
// HELP, TYPE and the samples of a metric stand together in this order, none
// occurs twice, and labels are printable, with escapes.
std::vector<sample> parse(const std::string &text)
{
    static const std::regex help("# HELP ([a-z_]+) .+\\."),
        type("# TYPE ([a-z_]+) (counter|gauge)"),
        one("([a-z_]+)(\\{(?:[a-z_]+=\"(?:[ "
            "!#-\\[\\]-~]|\\\\[\\\\\"n])*\",?)+\\})"
            " ([0-9]+)");
    std::vector<sample> all;
    std::set<std::string> seen;
    std::istringstream in(text);
    std::smatch found, is;

    EXPECT_TRUE(text.ends_with('\n'));
    for (std::string line, next, metric; std::getline(in, line);) {
        EXPECT_TRUE(seen.insert(line.substr(0, line.rfind("} "))).second)
            << line;
        if (std::regex_match(line, found, help)) {
            metric = found[1];
            EXPECT_TRUE(std::getline(in, next));
            EXPECT_TRUE(std::regex_match(next, is, type)) << next;
            EXPECT_EQ(metric, is[1]);
            EXPECT_EQ(is[2] == "counter", metric.ends_with("_total")) << next;
            continue;
        }
        EXPECT_TRUE(std::regex_match(line, found, one)) << line;
        all.push_back({found[1], found[2], std::stod(found[3])});
        EXPECT_EQ(metric, all.back().name) << line;
    }
    return all;
}

class test_render : public testing::Test {
protected:
    ~test_render() override { process_counters = {}; }

    static std::string line()
    {
        return std::string(render_json(process_counters, 7, memory_));
    }
    static nlohmann::ordered_json json()
    {
        return nlohmann::ordered_json::parse(line());
    }
    static std::string prometheus(std::string_view program = "a")
    {
        return std::string(
            render_prometheus(process_counters, 7, program, memory_));
    }
    // Returns the values of a Prometheus metric's samples, in order.
    static std::vector<double> values_of(const std::string &name)
    {
        std::vector<double> values;
        for (const sample &each : parse(prometheus())) {
            if (each.name == "ucx_ib_dmabuf_" + name) {
                values.push_back(each.value);
            }
        }
        return values;
    }
    static void expect_in_prometheus(const std::vector<std::string> &all)
    {
        const std::string text = prometheus();
        for (const std::string &each : all) {
            EXPECT_NE(std::string::npos, text.find(each)) << each;
        }
    }

    static inline std::array<char, text_max> memory_;
};

TEST_F(test_render, each_metric_has_its_name)
{
    for (size_t i = 0; i < std::size(process_counters.numbers); ++i) {
        process_counters.numbers[i] = 1000 + i;
    }
    const auto all = json();

    EXPECT_EQ(7, all["pid"]);
    EXPECT_EQ(0, all["pairs"].size());
    EXPECT_EQ(line().size() - 1, line().find('\n'));
    for (const metric_info &of : metrics) {
        const bool counts = of.kind == "counter";
        const std::string name =
            "ucx_ib_dmabuf_" + std::string(of.name) + (counts ? "_total" : "");
        expect_in_prometheus({"# HELP " + name + " " + of.help + ".\n# TYPE " +
                              name + " " + std::string(of.kind) + "\n"});
        if (of.size() == 1) {
            EXPECT_EQ(1000 + of.at, all[of.name]) << of.name;
            expect_in_prometheus({name + "{pid=\"7\",program=\"a\"} " +
                                  std::to_string(1000 + of.at) + "\n"});
        }
        EXPECT_EQ(of.size(),
                  all[of.name].is_number() ? 1 : all[of.name].size());
    }
}

TEST_F(test_render, times_are_told_by_their_size)
{
    for (const uint64_t nanoseconds :
         {0ul, 10'000ul, 10'001ul, 100'000ul, 100'001ul, 1'000'000'000ul,
          1'000'000'001ul, UINT64_MAX}) {
        process_counters.add_time("export_time", nanoseconds);
    }
    EXPECT_EQ(R"({"10us":2,"100us":2,"1ms":1,"1s":1,"longer":2})",
              json()["export_time"].dump());
    EXPECT_EQ((std::vector<double>{2, 2, 1, 0, 0, 1, 2}),
              values_of("export_time_total"));
    expect_in_prometheus({",up_to=\"100us\"} 2\n"});
}

TEST_F(test_render, pairs_are_told)
{
    auto &all = process_counters;

    EXPECT_EQ(std::string::npos, prometheus().find("_pair_"));
    all.of("mlx5_0", 1).add_region(0, 4096);
    all.of("mlx5_0", 1).add_region(0, 8192);
    all.of("mlx5_0", 1).end_region(8192);
    all.add_fallback(fallback_way::ucp, fallback_cause::no_room, "mlx5_1", -1,
                     100);
    all.of("mlx5_2", 0); // stays at zero
    EXPECT_EQ(
        R"([{"nic":"mlx5_0","gpu":1,"registrations":2,"deregistrations":1,)"
        R"("invalidations":0,"evictions":0,"failures":0,"regions":1,)"
        R"("registered_bytes":4096,"path_bytes":{"standard":12288},)"
        R"("fallback_operations":{},"fallback_bytes":{}},)"
        R"({"nic":"mlx5_1","gpu":-1,"registrations":0,"deregistrations":0,)"
        R"("invalidations":0,"evictions":0,"failures":0,"regions":0,)"
        R"("registered_bytes":0,"path_bytes":{},)"
        R"("fallback_operations":{"ucp: no_room":1},)"
        R"("fallback_bytes":{"ucp: no_room":100}}])",
        json()["pairs"].dump());
    for (const metric_info &each : std::span(metrics).first<pair_metrics>()) {
        EXPECT_EQ(2 * each.size(),
                  values_of("pair_" + std::string(each.name) +
                            (each.kind == "counter" ? "_total" : ""))
                      .size());
    }
    expect_in_prometheus(
        {",program=\"a\",nic=\"mlx5_0\",gpu=\"1\"} 2\n",
         "nic=\"mlx5_0\",gpu=\"1\",path=\"standard\"} 12288\n",
         "nic=\"mlx5_1\",gpu=\"-1\",way=\"ucp\",cause=\"no_room\"} 1\n"});
}

TEST_F(test_render, names_are_printable)
{
    EXPECT_FALSE(json().contains("hooks_missing"));
    process_counters.hooks_missing.set("\"a\" \\b\n\033[2J");
    process_counters.hooks_missing.set("the second one");
    EXPECT_EQ("\"a\" \\b??[2J", json()["hooks_missing"]);
    EXPECT_EQ("{pid=\"7\",program=\"a \\\"b\\\" \\\\c?d??\"}",
              parse(prometheus("a \"b\" \\c\nd\t\xff"))[0].labels);
}

// The maximum of rows, with the largest numbers and the longest names.
TEST_F(test_render, the_largest_fits)
{
    const std::string nic(63, '"'), program(4096, '"');

    std::ranges::fill(process_counters.numbers, UINT64_MAX);
    for (int i = 0; i <= int{counters::max_pairs}; ++i) {
        std::ranges::fill(process_counters.of(nic, INT_MIN + i).numbers,
                          UINT64_MAX);
    }
    process_counters.hooks_missing.set(std::string(255, '"'));
    EXPECT_NE("", render_json(process_counters, INT_MIN, memory_));
    const std::string labels = parse(prometheus(program))[0].labels;
    EXPECT_EQ(63u, (labels.size() - labels.find("m=\"") - 5) / 2) << labels;
}

TEST_F(test_render, there_is_no_half_text)
{
    const std::string all = line();
    std::vector<char> memory(all.size() + 1);

    for (size_t size = 0; size <= all.size(); ++size) {
        EXPECT_EQ("", render_json(process_counters, 7, {memory.data(), size}));
    }
    EXPECT_EQ(all, render_json(process_counters, 7, memory));
}

// docs/info.md must list each metric, word by word.
TEST(test_documentation, has_each_metric)
{
    const char *top = getenv("top_srcdir");
    ASSERT_NE(nullptr, top);
    std::ifstream page(std::string(top) + "/docs/info.md");
    std::vector<std::string> found;

    for (std::string line; std::getline(page, line);) {
        std::smatch row;
        if (std::regex_match(line, row,
                             std::regex("\\| (`.*` \\| (?:counter|gauge)) \\| "
                                        "[^|]* \\| (.*) \\|"))) {
            found.push_back(row.str(1) + " | " + row.str(2));
        }
    }
    std::vector<std::string> wanted;
    for (const metric_info &each : metrics) {
        wanted.push_back("`" + std::string(each.name) + "` | " +
                         std::string(each.kind) + " | " + each.help);
    }
    EXPECT_EQ(wanted, found);
}

} // namespace
