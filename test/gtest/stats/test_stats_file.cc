// SPDX-License-Identifier: BSD-3-Clause
//
// The file of UCX_IB_DMABUF_STATS: its name, and how it is written.
#include <cerrno>
#include <common/elsewhere.h>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <uct/ib_dmabuf/stats/stats_file.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf;
namespace fs = std::filesystem;

namespace {

class test_file : public testing::Test {
protected:
    test_file()
    {
        char name[] = "/tmp/test_file.XXXXXX";
        folder_     = mkdtemp(name);
    }
    ~test_file() override { fs::remove_all(folder_); }

    std::string in_folder(const std::string &name) const
    {
        return folder_ + "/" + name;
    }
    static std::string content(const std::string &path)
    {
        std::ifstream in(path);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    static std::string expanded(const std::string &pattern)
    {
        std::array<char, PATH_MAX> path;
        const char *wrong = expand_pattern(pattern.c_str(), &path);
        return (wrong == nullptr) ? path.data() : std::string("wrong");
    }
    auto files() const
    {
        return std::distance(fs::directory_iterator(folder_), {});
    }

    std::string folder_;
};

TEST_F(test_file, patterns)
{
    char host[256] = "";
    gethostname(host, sizeof(host) - 1);
    const std::string pid = std::to_string(getpid());

    EXPECT_EQ("a/b.json", expanded("a/b.json"));
    EXPECT_EQ(pid, expanded("%p"));
    EXPECT_EQ(std::string("a/") + host + "-" + pid + ".prom",
              expanded("a/%h-%p.prom"));
    EXPECT_EQ("100%p", expanded("100%%p"));
    EXPECT_EQ("%%", expanded("%%%%"));
    for (const char *wrong : {"%", "a%", "%x", "%%%", "%P", "% p"}) {
        EXPECT_EQ("wrong", expanded(wrong)) << wrong;
    }
}

TEST_F(test_file, names_have_a_limit)
{
    EXPECT_EQ(std::string(PATH_MAX - 1, 'a'),
              expanded(std::string(PATH_MAX - 1, 'a')));
    EXPECT_EQ("wrong", expanded(std::string(PATH_MAX, 'a')));
    EXPECT_EQ("wrong", expanded(std::string(PATH_MAX - 1, 'a') + "%p"));
    EXPECT_EQ(
        ENAMETOOLONG,
        write_metrics((std::string(PATH_MAX - 6, 'a') + ".prom").c_str()));
}

TEST_F(test_file, json_is_a_line_behind_the_others)
{
    const std::string path = in_folder("a");

    for (uint64_t hits : {7, 8}) {
        process_counters.set("hits", hits);
        EXPECT_EQ(0, check_writable(path.c_str()));
        EXPECT_EQ(0, write_metrics(path.c_str()));
        EXPECT_EQ(1, files());
    }
    const std::string all = content(path);
    const size_t second   = all.find('\n') + 1;
    EXPECT_NE(std::string::npos, all.find("\"hits\": 7,"));
    EXPECT_GT(all.find("\"hits\": 8,"), second);
    EXPECT_EQ(all.size() - 1, all.find('\n', second));
}

TEST_F(test_file, prometheus_takes_the_place_of_what_was_there)
{
    const std::string path = in_folder("a.prom"), old = in_folder("old");
    struct stat before {
    }, after{};

    for (uint64_t hits : {7, 8}) {
        process_counters.set("hits", hits);
        EXPECT_EQ(0, write_metrics(path.c_str()));
        EXPECT_NE(std::string::npos,
                  content(path).find("} " + std::to_string(hits) + "\n"));
        EXPECT_EQ(1, files());
    }
    // A reader keeps the old file, as the new one is another file.
    fs::create_hard_link(path, old);
    const std::string read = content(old);
    ASSERT_EQ(0, stat(path.c_str(), &before));
    process_counters.set("hits", 9);
    EXPECT_EQ(0, write_metrics(path.c_str()));
    ASSERT_EQ(0, stat(path.c_str(), &after));
    EXPECT_NE(before.st_ino, after.st_ino);
    EXPECT_EQ(read, content(old));
}

TEST_F(test_file, failures_name_their_errno)
{
    fs::create_directory(in_folder("folder.prom"));
    std::ofstream(in_folder("file")) << "a";
    const struct {
        std::string path;
        int error;
    } all[] = {{in_folder("none/a"), ENOENT},
               {in_folder("none/a.prom"), ENOENT},
               {in_folder("file/a"), ENOTDIR},
               {in_folder("file/a.prom"), ENOTDIR}};

    for (const auto &each : all) {
        EXPECT_EQ(each.error, check_writable(each.path.c_str())) << each.path;
        EXPECT_EQ(each.error, write_metrics(each.path.c_str())) << each.path;
    }
    fs::create_directory(in_folder("folder"));
    for (const char *name : {"folder.prom", "folder"}) {
        EXPECT_EQ(EISDIR, check_writable(in_folder(name).c_str())) << name;
        EXPECT_EQ(EISDIR, write_metrics(in_folder(name).c_str())) << name;
    }
    EXPECT_EQ(3, files()) << "what could not be renamed stays";
}

// No signal may kill the process while it writes at its end.
TEST_F(test_file, a_limit_of_files_ends_no_process)
{
    EXPECT_TRUE(in_child([&] {
        const rlimit none{0, 0};
        const bool limited = setrlimit(RLIMIT_FSIZE, &none) == 0;
        return limited && (write_metrics(in_folder("a").c_str()) == EFBIG);
    }));
}

TEST_F(test_file, a_full_disk_leaves_what_was_there)
{
    EXPECT_EQ(ENOSPC, write_metrics("/dev/full"));
    EXPECT_EQ(0, check_writable("/dev/null"));
}

TEST_F(test_file, a_name_without_a_folder_is_in_this_one)
{
    const fs::path before = fs::current_path();

    fs::current_path(folder_);
    EXPECT_EQ(0, check_writable("a.prom"));
    EXPECT_EQ(0, write_metrics("a.prom"));
    EXPECT_TRUE(fs::exists("a.prom"));
    fs::current_path(before);
}

} // namespace
