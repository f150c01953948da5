// SPDX-License-Identifier: BSD-3-Clause
//
// UCX_IB_DMABUF_STATS: the file that a process writes at its end, and the
// messages if it cannot. Each test runs in a new process, as settings are read
// once.
#include "fake_domain.h"
#include <atomic>
#include <cerrno>
#include <common/breakpoint.h>
#include <common/fds.h>
#include <common/gpu.h>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <iterator>
#include <regex>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace {

// Set in children, which do not free their parent's memory.
bool leaks = false;

} // namespace

// AddressSanitizer calls this before it looks for leaks.
extern "C" int __lsan_is_turned_off() // NOLINT(*-reserved-identifier)
{
    return leaks ? 1 : 0;
}

namespace {

class test_stats : public testing::Test {
protected:
    test_stats()
    {
        char name[] = "/tmp/test_stats.XXXXXX";
        folder_     = mkdtemp(name);
    }
    ~test_stats() override { fs::remove_all(folder_); }

    // Runs a child with this setting, which registers memory and exits.
    void run(const std::string &stats, const std::function<void()> &more = {})
    {
        int status = 0;

        fflush(nullptr);
        child_ = fork();
        if (child_ == 0) {
            leaks         = true;
            const int out = open((folder_ + "/out").c_str(),
                                 O_WRONLY | O_CREAT | O_TRUNC, 0666);
            dup2(out, STDOUT_FILENO);
            dup2(out, STDERR_FILENO);
            setenv("UCX_IB_DMABUF_STATS", stats.c_str(), 1);
            {
                auto md = first_fake_domain();
                const gpu::buffer memory(1 << 20);
                EXPECT_EQ(UCS_OK, md->dereg(md->reg(memory.address(), 4096)));
                EXPECT_EQ(UCS_OK, md->dereg(md->reg(memory.address(), 4096)));
                if (more) {
                    more();
                }
            }
            exit(HasFailure() ? 1 : 0);
        }
        ASSERT_EQ(child_, waitpid(child_, &status, 0));
        EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0))
            << "status " << status << ": " << content("out");
    }
    std::string content(const std::string &name) const
    {
        std::ifstream in(folder_ + "/" + name);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void expect_in(const std::string &name, const std::string &text) const
    {
        const std::string all = content(name);
        EXPECT_NE(std::string::npos, all.find(text)) << all << content("out");
    }
    // Returns how often the pattern occurs in the child's output.
    auto said(const std::string &pattern) const
    {
        const std::string all = content("out");
        const std::regex wanted(pattern);
        return std::distance(
            std::sregex_iterator(all.begin(), all.end(), wanted), {});
    }

    std::string folder_;
    pid_t child_ = -1;
};

TEST_F(test_stats, a_relative_name_counts_from_where_it_started)
{
    const fs::path before = fs::current_path();
    fs::current_path(folder_);
    run("%p-%%.json", [] { fs::current_path("/"); });
    fs::current_path(before);
    EXPECT_EQ(0, said("UCX_IB_DMABUF_STATS")) << content("out");
    expect_in(std::to_string(child_) + "-%.json",
              "\"hits\": 1, \"misses\": 1,");
}

TEST_F(test_stats, exports_and_registrations_have_their_times)
{
    run(folder_ + "/a.prom");
    const std::string text = content("a.prom");
    for (const char *name : {"export", "registration"}) {
        EXPECT_TRUE(std::regex_search(
            text, std::regex(std::string("ucx_ib_dmabuf_") + name +
                             "_time_total[{].*[}] [1-9]")))
            << text;
    }
}

// The driver's refusals, counted by the way used instead.
TEST_F(test_stats, fallbacks_are_counted_by_cause)
{
    run(folder_ + "/a", [] {
        auto md = first_fake_domain();
        const gpu::buffer memory(1 << 20);
        const gpu::scoped_fail refused("cuMemGetHandleForAddressRange=801");
        uct_mem_h none = nullptr;
        EXPECT_NE(UCS_OK, md->reg(memory.address(), 8192, &none,
                                  ucx::access_rma | ucx::hide_errors));
        EXPECT_NE(UCS_OK, md->reg(memory.address(), 12288, &none));
    });
    expect_in("a", "\"fallback_operations\": {\"ucp: unsupported\": 1, "
                   "\"error: unsupported\": 1}, \"fallback_bytes\": "
                   "{\"ucp: unsupported\": 8192, \"error: unsupported\": "
                   "12288}");
}

TEST_F(test_stats, what_was_chosen_for_a_pair_is_told_once)
{
    const char line[] =
        "INFO.*fake1 and GPU 0: registered in standard mapping; ";

    run("", [] {
        ucx::set_log_level("info");
        const gpu::buffer memory(1 << 20), more(1 << 20);
        fake_domain first("fake1"), other("fake1");
        for (fake_domain *md : {&first, &other}) {
            EXPECT_EQ(UCS_OK, md->dereg(md->reg(memory.address(), 4096)));
            EXPECT_EQ(UCS_OK, md->dereg(md->reg(more.address(), 4096)));
        }
    });
    EXPECT_EQ(1, said(line)) << content("out");
    run("");
    EXPECT_EQ(0, said("INFO")) << content("out");
}

// The child finds a function of the driver that cannot be moved.
TEST_F(test_stats, a_function_without_a_hook_is_told_once_and_checked_for)
{
    const std::string why =
        "cuMemPoolTrimTo: a breakpoint is set in its first instructions";
    const auto questions = [] {
        auto *const calls =
            gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls");
        return calls("cuPointerGetAttribute") + calls("cuPointerGetAttributes");
    };
    const auto uses = [&](bool checked) {
        auto md = first_fake_domain();
        const gpu::buffer memory(1 << 20);
        uint64_t before = 0;
        for (int i = 0; i < 3; ++i) {
            before = questions();
            EXPECT_EQ(UCS_OK, md->dereg(md->reg(memory.address(), 4096)));
        }
        EXPECT_EQ(checked, questions() != before);
    };
    {
        const ucx_ib_dmabuf::test::breakpoint stopped(
            gpu::entry<void>("cuMemPoolTrimTo"));
        run(folder_ + "/a", [&] { uses(true); });
    }
    EXPECT_EQ(1, said("WARN")) << content("out");
    EXPECT_EQ(1, said("memory can be seen \\(" + why + "\\)"));
    expect_in("a", "\"hooks_complete\": 0");
    expect_in("a", "\"hooks_missing\": \"" + why + "\"");
    run(folder_ + "/b", [&] { uses(false); });
    EXPECT_EQ(0, said("WARN")) << content("out");
    expect_in("b", "\"hooks_complete\": 1");
}

// Processes share the GPU and the NIC, so they make room for each other.
TEST_F(test_stats, what_another_process_has_idle_makes_room)
{
    static auto *const gone = static_cast<std::atomic<unsigned> *>(
        mmap(nullptr, sizeof(unsigned), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    int ready[2];
    char byte = 0;
    ASSERT_EQ(0, pipe(ready));
    const pid_t other = fork();
    if (other == 0) {
        gpu::use();
        // Before a thread answers for this process, as it reads that too.
        fake_ib::now.during_dereg = [] { ++*gone; };
        fake_domain md;
        const gpu::buffer memory(1 << 20);
        md.dereg(md.reg(memory.address(), 4096));
        if (write(ready[1], &byte, 1) == 1) {
            pause();
        }
        _exit(1);
    }
    EXPECT_EQ(1, read(ready[0], &byte, 1));
    run("", [] {
        const auto md = std::make_unique<fake_domain>();
        const gpu::buffer memory(1 << 20);
        fake_ib::now.during_reg = [] {
            fake_ib::now.fail_verbs = (*gone == 0) ? ENOMEM : 0;
        };
        uct_mem_h memh = nullptr;
        while (md->reg(memory.address(), 4096, &memh) != UCS_OK) {
            // The other one did not answer in time.
        }
        EXPECT_EQ(UCS_OK, md->dereg(memh));
        EXPECT_EQ(1u, *gone);
    });
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
}

TEST_F(test_stats, a_child_of_fork_counts_from_zero)
{
    run(folder_ + "/all", [] {
        const auto has_descriptor = [] { return live_page_fd() != -1; };
        const auto has_page       = [] {
            return ucx_ib_dmabuf::read_live(getpid()) != nullptr;
        };
        EXPECT_TRUE(has_descriptor());
        EXPECT_TRUE(has_page());
        const pid_t child = fork();
        int status        = 0;
        if (child == 0) { // its page is not its parent's
            const bool before = has_descriptor() || has_page();
            const fake_domain md("fake1");
            exit(!before && has_page() ? 0 : 1);
        }
        waitpid(child, &status, 0);
        EXPECT_EQ(0, status);
    });
    expect_in("all", "\"hits\": 0, \"misses\": 0,");
    expect_in("all", "\"pairs\": []}\n");
    expect_in("all", "\"hits\": 1, \"misses\": 1,");
    expect_in("all", "\"pid\": " + std::to_string(child_) + ",");
}

TEST_F(test_stats, a_file_that_cannot_be_written_is_one_warning)
{
    constexpr char no_folder[] = "WARN.*/none/.* cannot be written \\(No such";

    for (auto [name, warning] :
         {std::pair{"/%x", "WARN.*what follows \"%\" is none of"},
          {"/none/a", no_folder},
          {"/none/%p.prom", no_folder}}) {
        run(folder_ + name);
        EXPECT_EQ(1, said("UCX_IB_DMABUF_STATS=")) << content("out");
        EXPECT_EQ(1, said(warning)) << content("out");
    }
}

TEST_F(test_stats, what_fails_at_the_end_only_is_told_then)
{
    const std::string gone = folder_ + "/gone";
    fs::create_directory(gone);
    run(gone + "/a.prom", [&gone] { fs::remove(gone); });
    EXPECT_EQ(0, said("WARN")) << content("out");
    EXPECT_EQ(1, said("UCX_IB_DMABUF_STATS=.*cannot be written: No such file"));
}

} // namespace
