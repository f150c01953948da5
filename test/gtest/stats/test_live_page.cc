// SPDX-License-Identifier: BSD-3-Clause
//
// The page with a process's current counters, read by another process.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <common/live.h>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sched.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <uct/ib_dmabuf/stats/counters.h>
#include <unistd.h>
#include <utility>

using namespace ucx_ib_dmabuf;

namespace {

// Returns a counter in memory that the test shares with its children.
std::atomic<uint64_t> *counter()
{
    static void *const memory =
        mmap(nullptr, sizeof(std::atomic<uint64_t>), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return static_cast<std::atomic<uint64_t> *>(memory);
}

void before(bool)
{
    process_counters.set("hits", counter()->load());
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

// Returns the page's descriptor, or -1.
int descriptor(const std::string &folder = "/proc/self/fd/")
{
    const std::string wanted = std::string("/memfd:") + live_page_name;
    for (int fd = 0; fd < 1024; ++fd) {
        char link[256] = "";
        if ((readlink((folder + std::to_string(fd)).c_str(), link,
                      sizeof(link) - 1) > 0) &&
            std::string(link).starts_with(wanted)) {
            return fd;
        }
    }
    return -1;
}

bool show()
{
    return show_live(before) && show_live(before);
}

TEST(test_live, another_process_sees_what_is_now)
{
    *counter() = 1;
    process shown(show);
    const auto page = live_reader::open(shown.pid());

    ASSERT_NE(nullptr, page);
    for (uint64_t value : {2, 3, 4}) {
        *counter()             = value;
        const std::string line = ask(*page);
        EXPECT_NE(std::string::npos,
                  line.find("\"hits\": " + std::to_string(value) + ", "))
            << line;
    }
}

TEST(test_live, it_goes_with_the_process)
{
    process shown(show);
    const pid_t pid = shown.pid();
    const auto page = live_reader::open(pid);

    ASSERT_NE(nullptr, page);
    EXPECT_NE("", ask(*page));
    shown.end();
    EXPECT_EQ("", ask(*page, 10));
    EXPECT_EQ(nullptr, live_reader::open(pid));
    EXPECT_EQ(ENOENT, errno);
}

TEST(test_live, who_shows_nothing_is_told_from_others)
{
    process shown(show);
    const std::string its = "/proc/" + std::to_string(shown.pid()) + "/fd/";
    process silent([] { return true; });
    process reader([&] {
        const std::string page = its + std::to_string(descriptor(its));
        return open(page.c_str(), O_RDWR) >= 0;
    });

    for (const process *each : {&silent, &reader}) {
        EXPECT_EQ(nullptr, live_reader::open(each->pid()));
        EXPECT_EQ(ENODATA, errno);
    }
}

// The child inherits the descriptor, but neither the page nor its thread.
TEST(test_live, the_child_of_a_fork_makes_its_own)
{
    pthread_atfork(nullptr, nullptr, forget_live);
    for (bool makes : {false, true}) {
        int grandchild[2];
        pid_t child = 0;
        ASSERT_EQ(0, pipe(grandchild));
        process shown([&] {
            const bool made = show();
            const pid_t pid = fork();
            if (pid == 0) {
                const pid_t self = (!makes || show()) ? getpid() : 0;
                if (write(grandchild[1], &self, sizeof(self)) > 0) {
                    pause();
                }
                _exit(0);
            }
            return made;
        });
        ASSERT_EQ(ssize_t{sizeof(child)},
                  read(grandchild[0], &child, sizeof(child)));
        const auto page = live_reader::open(child);
        EXPECT_EQ(makes, page != nullptr);
        EXPECT_TRUE(makes || (errno == ENODATA)) << strerror(errno);
        if (makes && page) {
            EXPECT_NE("", ask(*page));
        }
        const auto parents = live_reader::open(shown.pid());
        EXPECT_TRUE(parents && !ask(*parents).empty());
        kill(child, SIGKILL);
        close(grandchild[0]);
        close(grandchild[1]);
    }
}

// SIGXFSZ would end the process.
TEST(test_live, a_process_that_may_write_no_such_file_has_none)
{
    process limited([] {
        const rlimit most{sizeof(live_page) - 1, sizeof(live_page)};
        return (setrlimit(RLIMIT_FSIZE, &most) == 0) && !show() &&
               (errno == EFBIG);
    });
}

// Each answer costs the process time.
TEST(test_live, who_asks_all_the_time_is_not_answered_each_time)
{
    constexpr auto each = std::chrono::milliseconds(10);
    *counter()          = 0;
    process shown([] { return show_live([](bool) { ++*counter(); }); });
    const auto page = live_reader::open(shown.pid());

    ASSERT_NE(nullptr, page);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 20'000; ++i) {
        page->request();
    }
    EXPECT_NE("", ask(*page));
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_LE(*counter(), static_cast<uint64_t>(took / each) + 3);
}

// A reader of a truncated page would die of SIGBUS.
TEST(test_live, nobody_cuts_it_off)
{
    process shown([] {
        return show() && (ftruncate(descriptor(), 0) != 0) && (errno == EPERM);
    });
}

// Shows a forged page, as any process can. It counts as answered at once.
template <typename Call>
bool show_forged(const Call &forge, int seals)
{
    const int fd =
        memfd_create(live_page_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if ((ftruncate(fd, sizeof(live_page)) != 0) ||
        (fcntl(fd, F_ADD_SEALS, seals) != 0)) {
        return false;
    }
    void *const made = mmap(nullptr, sizeof(live_page), PROT_READ | PROT_WRITE,
                            MAP_SHARED, fd, 0);
    auto *page       = static_cast<live_page *>(made);
    page->magic      = live_page::right_magic;
    page->version    = live_page::right_version;
    page->pid        = static_cast<uint64_t>(getpid());
    page->answered   = INT32_MAX;
    page->length     = 1;
    forge(*page);
    return true;
}

constexpr int all_seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Its truncation would kill the reader, which may run as root.
TEST(test_live, what_its_process_can_cut_off_is_not_read)
{
    for (const int seals : {0, F_SEAL_GROW | F_SEAL_SEAL, all_seals}) {
        process shown(
            [seals] { return show_forged([](live_page &) {}, seals); });
        const auto page = live_reader::open(shown.pid());
        EXPECT_EQ(seals == all_seals, page != nullptr) << seals;
        EXPECT_TRUE(page || (errno == EPROTO)) << strerror(errno);
    }
}

TEST(test_live, a_torn_page_or_one_that_lies_ends_nobody)
{
    using forgery                          = void (*)(live_page &);
    const std::pair<forgery, size_t> all[] = {
        {[](live_page &) {}, 1},
        {[](live_page &page) { page.sequence = 1; }, 0},
        {[](live_page &page) { page.answered = 0; }, 0},
        {[](live_page &page) { page.length = json_max; }, json_max},
        {[](live_page &page) { page.length = json_max + 1; }, 0},
        {[](live_page &page) { page.length = UINT64_MAX; }, 0}};

    for (const auto &[forge, length] : all) {
        process shown(
            [forge = forge] { return show_forged(forge, all_seals); });
        const auto page = live_reader::open(shown.pid());
        ASSERT_NE(nullptr, page);
        EXPECT_EQ(length, ask(*page, 0).size());
    }
    for (auto member : {&live_page::magic, &live_page::version}) {
        process shown([member] {
            return show_forged([member](live_page &page) { ++(page.*member); },
                               all_seals);
        });
        EXPECT_EQ(nullptr, live_reader::open(shown.pid()));
        EXPECT_EQ(EPROTO, errno);
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
    const auto page = live_reader::open(inside);
    EXPECT_TRUE(page && !ask(*page).empty()) << strerror(errno);
    kill(inside, SIGKILL);
}

TEST(test_live, other_processes_are_asked_for_room)
{
    *counter() = 0;
    process idle([] {
        return show_live([](bool room) { *counter() += room ? 1 : 0; });
    });
    process without(show);
    const auto page = live_reader::open(idle.pid());

    EXPECT_TRUE(ask_others_for_room());
    EXPECT_EQ(1u, *counter());
    EXPECT_NE("", ask(*page));
    EXPECT_EQ(1u, *counter()) << "that wants no room";
    page->request(true);
    EXPECT_NE("", ask(*page));
    EXPECT_EQ(2u, *counter());
}

// Other programs rely on the layout.
TEST(test_live, the_layout_is_the_documented_one)
{
    const auto at = [](auto member) {
        static live_page page;
        return reinterpret_cast<char *>(&(page.*member)) -
               reinterpret_cast<char *>(&page);
    };

    EXPECT_EQ(0, at(&live_page::magic));
    EXPECT_EQ(8, at(&live_page::version));
    EXPECT_EQ(16, at(&live_page::pid));
    EXPECT_EQ(24, at(&live_page::sequence));
    EXPECT_EQ(28, at(&live_page::asked));
    EXPECT_EQ(32, at(&live_page::answered));
    EXPECT_EQ(36, at(&live_page::wants_room));
    EXPECT_EQ(40, at(&live_page::length));
    EXPECT_EQ(48, at(&live_page::text));
    EXPECT_EQ(0, memcmp(&live_page::right_magic, "ucx-dmab", 8));
}

} // namespace
