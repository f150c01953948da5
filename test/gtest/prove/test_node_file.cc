// SPDX-License-Identifier: BSD-3-Clause
//
// Paths that other processes have proven: believed where all is as it was, and
// nowhere else.
#include "file_hooks.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <uct/ib_dmabuf/prove/node_file.h>
#include <uct/ib_dmabuf/prove/path_facts.h>
#include <uct/ib_dmabuf/prove/proofs.h>
#include <unistd.h>
#include <vector>

using namespace ucx_ib_dmabuf;
using prove_test::hooks;

namespace {

class test_node_file : public testing::Test {
protected:
    test_node_file()
    {
        char name[] = "/tmp/test_node_file.XXXXXX";
        top_        = mkdtemp(name);
        folder_     = top_ + "/node";
        file_       = folder_ + "/paths";
    }
    ~test_node_file() override
    {
        const std::string command = "rm -rf " + top_;
        EXPECT_EQ(0, system(command.c_str()));
    }

    node_file open() const { return node_file(folder_); }
    std::string content() const
    {
        std::ifstream in(file_, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write(const std::string &what) const
    {
        std::ofstream(file_, std::ios::binary | std::ios::trunc) << what;
    }

    const std::string first_ = "boot1 a path", second_ = "boot1 another";
    std::string top_, folder_, file_;
};

TEST_F(test_node_file, a_path_is_known_when_it_is_kept_and_until_it_is_dropped)
{
    EXPECT_FALSE(open().has(first_));
    open().keep(first_);
    open().keep(second_);
    open().keep(first_);
    EXPECT_TRUE(open().has(first_));
    EXPECT_TRUE(open().has(second_));
    EXPECT_FALSE(open().has("boot1 a"));
    open().drop(first_);
    EXPECT_FALSE(open().has(first_));
    EXPECT_TRUE(open().has(second_));
}

TEST_F(test_node_file, what_was_before_a_boot_goes)
{
    open().keep("boot0 a path");
    open().keep(first_);
    EXPECT_FALSE(open().has("boot0 a path"));
    EXPECT_TRUE(open().has(first_));
}

TEST_F(test_node_file, no_byte_may_differ)
{
    open().keep(first_);
    const std::string good = content();
    // What a damaged line might be taken for.
    std::vector<std::string> others{"boot1", "boot1 a", "", "oot1 a path"};

    for (size_t i = 0; i < good.size(); ++i) {
        for (unsigned flip = 1; flip < 256; ++flip) {
            std::string bad = good;
            bad[i] = static_cast<char>(static_cast<uint8_t>(bad[i]) ^ flip);
            write(bad);
            ASSERT_FALSE(open().has(first_)) << "byte " << i << ", " << flip;
            ASSERT_FALSE(open().has(bad.substr(0, first_.size())));
        }
    }
    for (size_t length = 0; length < good.size(); ++length) {
        write(good.substr(0, length));
        EXPECT_FALSE(open().has(first_)) << length << " bytes";
        for (const std::string &other : others) {
            EXPECT_FALSE(open().has(other));
        }
    }
    // It is written anew over that.
    open().keep(second_);
    EXPECT_TRUE(open().has(second_));
    EXPECT_EQ(std::string::npos, content().find("a path"));
}

TEST_F(test_node_file, a_huge_file_is_none)
{
    open().keep(first_);
    const std::string good = content();
    write(std::string(size_t{1} << 21, '\n') + good);
    EXPECT_FALSE(open().has(first_));
    open().keep(second_);
    EXPECT_TRUE(open().has(second_));
    EXPECT_LT(content().size(), 1000u);
}

TEST_F(test_node_file, what_others_may_write_is_not_believed)
{
    open().keep(first_);
    for (const mode_t mode : {0644, 0620, 0606, 0400}) {
        ASSERT_EQ(0, chmod(file_.c_str(), mode));
        EXPECT_FALSE(open().has(first_)) << std::oct << mode;
    }
    ASSERT_EQ(0, chmod(file_.c_str(), 0600));
    EXPECT_TRUE(open().has(first_));
    for (const mode_t mode : {0755, 0770, 01700}) {
        ASSERT_EQ(0, chmod(folder_.c_str(), mode));
        EXPECT_FALSE(open().has(first_)) << std::oct << mode;
    }
    ASSERT_EQ(0, chmod(folder_.c_str(), 0700));
    EXPECT_TRUE(open().has(first_));
}

TEST_F(test_node_file, what_somebody_else_owns_is_not_believed)
{
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root gives a file away";
    }
    open().keep(first_);
    ASSERT_EQ(0, chown(file_.c_str(), 12345, 12345));
    EXPECT_FALSE(open().has(first_));
    ASSERT_EQ(0, chown(file_.c_str(), 0, 0));
    EXPECT_TRUE(open().has(first_));
    ASSERT_EQ(0, chown(folder_.c_str(), 12345, 12345));
    EXPECT_FALSE(open().has(first_));
    open().keep(second_);
    EXPECT_EQ(std::string::npos, content().find(second_));
}

TEST_F(test_node_file, no_link_is_followed_nor_a_pipe_waited_for)
{
    open().keep(first_);
    ASSERT_EQ(0, rename(file_.c_str(), (top_ + "/elsewhere").c_str()));
    ASSERT_EQ(0, symlink("../elsewhere", file_.c_str()));
    EXPECT_FALSE(open().has(first_));
    ASSERT_EQ(0, unlink(file_.c_str()));
    ASSERT_EQ(0, mkfifo(file_.c_str(), 0600));
    EXPECT_FALSE(open().has(first_));
    ASSERT_EQ(0, unlink(file_.c_str()));
    ASSERT_EQ(0, rename((top_ + "/elsewhere").c_str(), file_.c_str()));
    EXPECT_TRUE(open().has(first_));

    ASSERT_EQ(0, rename(folder_.c_str(), (top_ + "/moved").c_str()));
    ASSERT_EQ(0, symlink("moved", folder_.c_str()));
    EXPECT_FALSE(open().has(first_));
}

TEST_F(test_node_file, without_a_place_nothing_is_kept)
{
    const node_file nowhere(top_ + "/no/such/folder");
    nowhere.keep(first_);
    EXPECT_FALSE(nowhere.has(first_));
    open().keep("");
    EXPECT_FALSE(open().has(""));
}

// One who died in the middle of it leaves a file behind.
TEST_F(test_node_file, what_was_left_behind_is_no_hindrance)
{
    open().keep(first_);
    std::ofstream(folder_ + "/paths.new") << "half a li";
    open().keep(second_);
    EXPECT_TRUE(open().has(first_));
    EXPECT_TRUE(open().has(second_));
}

TEST_F(test_node_file, processes_at_once_lose_nothing)
{
    constexpr int count = 4, each = 25;
    const auto key = [](int process, int i) {
        return "boot1 " + std::to_string(process) + "," + std::to_string(i);
    };

    for (int process = 0; process < count; ++process) {
        if (fork() == 0) {
            for (int i = 0; i < each; ++i) {
                while (!open().has(key(process, i))) { // lock() gives up
                    open().keep(key(process, i));
                }
            }
            _exit(0);
        }
    }
    for (int process = 0; process < count; ++process) {
        int status = -1;
        wait(&status);
        EXPECT_EQ(0, status);
    }
    for (int process = 0; process < count; ++process) {
        for (int i = 0; i < each; ++i) {
            EXPECT_TRUE(open().has(key(process, i)));
        }
    }
}

TEST_F(test_node_file, what_cannot_be_taken_out_goes_with_the_others)
{
    open().keep(first_);
    open().keep(second_);
    ASSERT_EQ(0, mkdir((folder_ + "/paths.new").c_str(), S_IRWXU));
    open().drop(first_);
    EXPECT_FALSE(open().has(first_));
}

// Whoever has the lock, and was stopped, goes on later.
TEST_F(test_node_file, what_was_dropped_is_not_put_back)
{
    for (auto *stopped : {&hooks.before_unlink, &hooks.before_rename}) {
        open().keep(first_);
        *stopped = [this] {
            open().drop(first_);
            EXPECT_EQ("", content());
        };
        open().keep(second_);
        EXPECT_FALSE(*stopped);
        EXPECT_FALSE(open().has(first_));
        EXPECT_NE(0, access((file_ + ".new").c_str(), F_OK));
    }
    open().keep(second_);
    EXPECT_TRUE(open().has(second_));
}

TEST_F(test_node_file, several_are_dropped_at_once)
{
    const std::string third = "boot1 the third";
    for (const std::string &each : {first_, second_, third}) {
        open().keep(each);
    }
    open().drop(std::vector<std::string>{first_, third});
    EXPECT_FALSE(open().has(first_));
    EXPECT_TRUE(open().has(second_));
    EXPECT_FALSE(open().has(third));
    open().drop_all();
    EXPECT_FALSE(open().has(second_));
}

TEST_F(test_node_file, a_child_of_fork_does_not_keep_the_lock)
{
    std::atomic<bool> ends{false};
    std::thread writer([&] {
        for (int i = 0; !ends; ++i) {
            open().keep("boot1 path" + std::to_string(i % 8));
            open().drop("boot1 path" + std::to_string(i % 8));
        }
    });
    std::vector<pid_t> children;
    for (int i = 0; i < 100; ++i) {
        children.push_back(fork());
        if (children.back() == 0) {
            pause();
            _exit(0);
        }
        usleep(200);
    }
    ends = true;
    writer.join();
    open().keep(first_);
    EXPECT_TRUE(open().has(first_));
    for (const pid_t child : children) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
}

TEST_F(test_node_file, a_fact_that_changes_makes_another_path)
{
    const path_facts known{"boot", "6.1",  "gpu", "mlx5_0",
                           "22.1", "guid", "pci", "step1"};
    path_facts other = known;

    open().keep(known.key());
    EXPECT_TRUE(open().has(other.key()));
    for (std::string *each :
         {&other.boot, &other.kernel, &other.gpu, &other.nic, &other.firmware,
          &other.node_guid, &other.nic_place, &other.how}) {
        const std::string before = *each;
        *each += "x";
        EXPECT_FALSE(open().has(other.key())) << *each;
        each->clear();
        EXPECT_FALSE(open().has(other.key())) << before;
        EXPECT_EQ(each != &other.nic_place, other.key().empty()) << before;
        *each = before;
    }
    other.gpu = "g\nu p";
    EXPECT_EQ(std::string::npos, other.key().find('\n'));
}

TEST_F(test_node_file, only_what_carries_is_kept_and_once_believes_it)
{
    const node_file node(folder_);
    const proofs::path path{"nic0", 0, ladder_step::standard, ""};
    uint64_t calls   = 0;
    const auto asked = [&](finding now, bool once) {
        proofs process(&node, once);
        const finding found = process.ask(
            path, [&] { return first_; },
            [&] {
                ++calls;
                return verdict{now, "a test"};
            });
        const uint64_t made = (now == finding::unknown) ? 0 : calls;
        EXPECT_EQ(made, process.made()) << "what is kept is not made";
        calls = 0;
        return found;
    };

    EXPECT_EQ(finding::unknown, asked(finding::unknown, true));
    EXPECT_EQ(finding::refuted, asked(finding::refuted, true));
    EXPECT_EQ(finding::carries, asked(finding::carries, true));
    EXPECT_EQ(finding::carries, asked(finding::refuted, true)); // is believed
    EXPECT_EQ(finding::refuted, asked(finding::refuted, false));
    EXPECT_EQ(finding::refuted, asked(finding::refuted, true)); // was dropped
    EXPECT_EQ(finding::carries, asked(finding::carries, false));
    EXPECT_EQ(finding::carries, asked(finding::refuted, true));
}

// So that each process tells of it.
TEST_F(test_node_file, what_carries_slowly_is_not_kept)
{
    using std::chrono::microseconds;
    const node_file node(folder_);
    const verdict slow{finding::carries, "", false, false,
                       pace{"a test", 1, microseconds(9), microseconds(1)}};

    for (const verdict &now : {verdict{finding::carries, ""}, slow}) {
        proofs process(&node, false);
        process.ask(
            {"nic0", 0, ladder_step::standard, ""}, [&] { return first_; },
            [&] { return now; });
        EXPECT_EQ(!now.slow, open().has(first_));
    }
}

// By which all of its paths may be meant, and nobody else's.
TEST_F(test_node_file, what_is_doubted_is_found_out_anew)
{
    const node_file node(folder_);
    proofs process(&node, true);
    unsigned calls = 0;
    const auto ask = [&](const char *nic, const std::string &key, finding now) {
        return process.ask(
            {nic, 0, ladder_step::standard, ""}, [&] { return key; },
            [&] {
                ++calls;
                return verdict{now, "a test"};
            });
    };

    node.keep(first_);
    EXPECT_EQ(finding::carries, ask("nic0", first_, finding::refuted));
    EXPECT_EQ(finding::carries, ask("nic1", second_, finding::carries));
    EXPECT_EQ(1u, calls);
    process.doubt("nic0");
    EXPECT_FALSE(node.has(first_)) << "other processes would trust it";
    EXPECT_TRUE(node.has(second_));
    EXPECT_EQ(finding::carries, ask("nic1", second_, finding::refuted));
    EXPECT_EQ(1u, calls);

    node.keep(first_); // by another process, which has seen no error
    EXPECT_EQ(finding::carries, ask("nic0", first_, finding::carries));
    EXPECT_EQ(2u, calls) << "it is not believed";
    process.doubt("nic0");
    node.keep(first_);
    EXPECT_EQ(finding::unknown, ask("nic0", first_, finding::unknown));
    EXPECT_FALSE(node.has(first_));
    EXPECT_EQ(finding::refuted, ask("nic0", first_, finding::refuted));
    process.doubt("nic0");
    EXPECT_EQ(finding::refuted, ask("nic0", first_, finding::carries))
        << "what is refuted stays so";
    EXPECT_EQ(4u, calls);
}

} // namespace
