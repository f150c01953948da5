// SPDX-License-Identifier: BSD-3-Clause
//
// A process's current counters, read by another process.
#include <cerrno>
#include <chrono>
#include <common/fds.h>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <uct/ib_dmabuf/stats/live_page.h>
#include <uct/ib_dmabuf/stats/stats_file.h>
#include <unistd.h>
#include <utility>

using namespace ucx_ib_dmabuf;
using namespace std::chrono_literals;

namespace {

// Counts its answers to requests for room as hits.
bool show()
{
    const auto give = []() noexcept { process_counters.add("hits"); };

    process_counters.add("misses");
    process_counters.add("mapped_bytes", 4096); // else nothing is asked
    const bool shown = show_live() && show_live() && give_room_to_others(give);
    process_counters.of("mlx5_0", 1).add_region(0, 4096);
    return shown;
}

// A child that runs the call, and then waits to be killed.
class process {
public:
    template <typename Call>
    explicit process(const Call &call)
    {
        int ready[2];
        char byte = 0;
        if (pipe(ready) != 0) {
            abort();
        }
        pid_ = fork();
        if (pid_ == 0) {
            byte = call() ? 'y' : 'n';
            if (write(ready[1], &byte, 1) == 1) {
                pause();
            }
            _exit(0);
        }
        close(ready[1]); // or a dead child blocks the read
        EXPECT_EQ(1, read(ready[0], &byte, 1));
        EXPECT_EQ('y', byte);
        close(ready[0]);
    }
    ~process() { end(); }
    process(const process &)            = delete;
    process &operator=(const process &) = delete;

    pid_t pid() const { return pid_; }
    void end()
    {
        if (pid_ > 0) {
            kill(pid_, SIGKILL);
            waitpid(pid_, nullptr, 0);
            pid_ = -1;
        }
    }

private:
    pid_t pid_;
};

// Whether the process has answered. It may get no time for a while, and others
// may answer.
bool makes_room(pid_t pid)
{
    for (int i = 0; i < 60; ++i) {
        if (ask_others_for_room() && (read_live(pid)->get("hits") > 0)) {
            return true;
        }
    }
    return false;
}

TEST(test_live, another_process_sees_what_is_now)
{
    process shown(show);
    const auto before = read_live(shown.pid());

    ASSERT_NE(nullptr, before);
    EXPECT_EQ(1u, before->get("misses")) << "counted before it was shown";
    EXPECT_EQ(1u, before->pairs[0].get("registrations"));
    EXPECT_TRUE(makes_room(shown.pid()));
    const pid_t pid = shown.pid();
    shown.end();
    EXPECT_EQ(nullptr, read_live(pid));
    EXPECT_EQ(ENOENT, errno);
}

TEST(test_live, who_shows_nothing_is_told_from_others)
{
    process shown(show);
    const std::string its = "/proc/" + std::to_string(shown.pid()) + "/fd/";
    process silent([] { return true; });
    process reader([&] {
        const std::string page = its + std::to_string(live_page_fd(its));
        return open(page.c_str(), O_RDWR) >= 0;
    });

    for (const process *each : {&silent, &reader}) {
        EXPECT_EQ(nullptr, read_live(each->pid()));
        EXPECT_EQ(ENODATA, errno);
    }
}

// SIGXFSZ would end the process.
TEST(test_live, a_process_that_may_write_no_such_file_has_none)
{
    process limited([] {
        const rlimit most{sizeof(counters) - 1, sizeof(counters)};
        return (setrlimit(RLIMIT_FSIZE, &most) == 0) && !show() &&
               (errno == EFBIG);
    });
}

// A reader of a truncated page would die of SIGBUS.
TEST(test_live, nobody_cuts_it_off)
{
    process shown([] {
        return show() && (ftruncate(live_page_fd(), 0) != 0) &&
               (errno == EPERM);
    });
}

// Shows a forged file, as any process can: no text in it ends.
bool show_forged(int seals, uint64_t layout)
{
    const int fd =
        memfd_create(live_page_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    auto all = std::make_unique<counters>();
    memset(static_cast<void *>(all.get()), 0xff, sizeof(*all));
    all->layout = layout;
    all->pid    = static_cast<uint64_t>(getpid());
    return (write(fd, all.get(), sizeof(*all)) == ssize_t{sizeof(*all)}) &&
           (fcntl(fd, F_ADD_SEALS, seals) == 0);
}

// The truncation of a file would kill its reader, which may run as root.
TEST(test_live, a_forged_file_ends_nobody)
{
    constexpr int seals  = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    constexpr auto right = counters::right_layout;
    static std::array<char, text_max> memory;

    for (const auto &[sealed, layout] : {std::pair{0, right},
                                         {F_SEAL_GROW | F_SEAL_SEAL, right},
                                         {seals, right + 1},
                                         {seals, right}}) {
        process shown([sealed = sealed, layout = layout] {
            return show_forged(sealed, layout);
        });
        const auto found = read_live(shown.pid());
        ASSERT_EQ((sealed == seals) && (layout == right), found != nullptr);
        if (!found) {
            EXPECT_EQ(EPROTO, errno) << "another version, or not sealed";
            continue;
        }
        const std::string_view line = render_json(*found, 1, memory);
        EXPECT_NE(line.npos, line.find("{\"nic\": \"" + std::string(64, '?')));
        EXPECT_NE(line.npos, line.find(": \"" + std::string(256, '?') + "\""));
    }
}

TEST(test_live, a_process_in_a_container_is_seen_from_outside)
{
    process outside([] {
        int ready[2];
        char byte = 'n';
        if ((unshare(CLONE_NEWPID) != 0) || (pipe(ready) != 0)) {
            return true;
        }
        if (fork() == 0) {
            byte = show() ? 'y' : 'n';
            if (write(ready[1], &byte, 1) == 1) {
                pause();
            }
            _exit(0);
        }
        return (read(ready[0], &byte, 1) == 1) && (byte == 'y');
    });
    const std::string pid = std::to_string(outside.pid());
    std::ifstream children("/proc/" + pid + "/task/" + pid + "/children");
    pid_t inside = 0;
    if (!(children >> inside)) {
        GTEST_SKIP() << "no process may be in another namespace here";
    }
    EXPECT_NE(nullptr, read_live(inside)) << strerror(errno);
    kill(inside, SIGKILL);
}

// Each answer costs the process time.
TEST(test_live, who_asks_all_the_time_is_not_answered_each_time)
{
    process idle(show);

    const std::string its  = "/proc/" + std::to_string(idle.pid()) + "/fd/";
    const std::string page = its + std::to_string(live_page_fd(its));
    auto *word             = static_cast<counters *>(
        mmap(nullptr, sizeof(counters), PROT_READ | PROT_WRITE, MAP_SHARED,
                         open(page.c_str(), O_RDWR | O_CLOEXEC), 0));
    const auto begin   = std::chrono::steady_clock::now();
    const auto answers = [&] { return read_live(idle.pid())->get("hits"); };
    for (int i = 0; i < 2000 || (answers() < 3 && i < 100'000); ++i) {
        __atomic_add_fetch(&word->wants_room, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &word->wants_room, FUTEX_WAKE, 1, nullptr, nullptr,
                0);
        usleep(50);
    }
    EXPECT_TRUE(makes_room(idle.pid()));
    const uint64_t given = answers();
    const auto took      = std::chrono::steady_clock::now() - begin;
    EXPECT_LE(given, static_cast<uint64_t>(took / 10ms) + 3);
    EXPECT_GE(given, 3u);
}

} // namespace
