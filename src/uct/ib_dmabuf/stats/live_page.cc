// SPDX-License-Identifier: BSD-3-Clause
#include "live_page.h"
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <linux/futex.h>
#include <linux/magic.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

std::atomic<bool> is_shown;
int own_fd = -1;
struct stat own_file;

void *childs; // memory for the counters of a forked child, as yet untouched

void *map(int flags, int fd)
{
    void *made =
        mmap(nullptr, sizeof(counters), PROT_READ | PROT_WRITE, flags, fd, 0);
    return (made == MAP_FAILED) ? nullptr : made;
}

// Moves the counters to this memory, which moves to their address.
bool move_counters(void *to)
{
    memcpy(to, &process_counters, sizeof(counters));
    // UCX patches mremap(): its handlers take locks, which another thread of a
    // forked child's parent may have held.
    return syscall(SYS_mremap, to, sizeof(counters), sizeof(counters),
                   MREMAP_MAYMOVE | MREMAP_FIXED, &process_counters) != -1;
}

long futex(uint32_t *word, int what, uint32_t value)
{
    return syscall(SYS_futex, word, what, value, nullptr, nullptr, 0);
}

void give_room(void (*make_room)() noexcept)
{
    counters &own = process_counters;

    for (;;) {
        const uint32_t wanted =
            __atomic_load_n(&own.wants_room, __ATOMIC_ACQUIRE);
        if (wanted != __atomic_load_n(&own.gave_room, __ATOMIC_RELAXED)) {
            make_room();
            __atomic_store_n(&own.gave_room, wanted, __ATOMIC_RELEASE);
            usleep(10'000); // so that steady requests do not cost a core
        }
        if ((futex(&own.wants_room, FUTEX_WAIT, wanted) != 0) &&
            (errno != EAGAIN) && (errno != EINTR)) {
            return; // rather than spin
        }
    }
}

// The size is sealed: a reader beyond the end would die. So would a writer for
// lack of memory, which is taken at once. Sets errno on failure.
bool make_file()
{
    rlimit most{};

    // A larger file would raise a signal that ends the process.
    errno = EFBIG;
    own_fd =
        ((getrlimit(RLIMIT_FSIZE, &most) == 0) &&
         (most.rlim_cur < sizeof(counters)))
            ? -1
            : memfd_create(live_page_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return (own_fd >= 0) && (fallocate(own_fd, 0, 0, sizeof(counters)) == 0) &&
           (fcntl(own_fd, F_ADD_SEALS,
                  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0) &&
           (fstat(own_fd, &own_file) == 0);
}

// The number by which a process knows itself: the last one of "NSpid", of the
// innermost container.
uint64_t own_number(pid_t pid)
{
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    auto number = static_cast<uint64_t>(pid);

    for (std::string word; (status >> word) && (word != "NSpid:");) {
    }
    for (uint64_t next = 0; status >> next;) {
        number = next;
    }
    return number;
}

// Whether reading the file cannot raise SIGBUS: its size is sealed, and its
// pages are not huge pages, which may be lacking.
bool is_safe(int fd)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct statfs where {};

    return (seals >= 0) && ((seals & F_SEAL_SHRINK) != 0) &&
           (fstatfs(fd, &where) == 0) && (where.f_type == TMPFS_MAGIC) &&
           (lseek(fd, 0, SEEK_END) >= off_t{sizeof(counters)});
}

using mapping = std::unique_ptr<counters, void (*)(counters *)>;

// ENODATA: the file is another process's, which this process reads or has
// inherited.
mapping map_file(int fd, uint64_t whose)
{
    mapping made(
        static_cast<counters *>(is_safe(fd) ? map(MAP_SHARED, fd) : nullptr),
        [](counters *ended) { munmap(ended, sizeof(counters)); });
    const bool right = made && (made->layout == counters::right_layout);

    if (!right || (made->pid != whose)) {
        made.reset();
        errno = right ? ENODATA : EPROTO;
    }
    return made;
}

mapping map_live(pid_t pid)
{
    const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    const std::string wanted = std::string("/memfd:") + live_page_name;
    const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir(folder.c_str()),
                                                   closedir);
    int error = all ? ENODATA : errno;
    mapping found(nullptr, nullptr);

    while (const dirent *each =
               (all && !found) ? readdir(all.get()) : nullptr) {
        const std::string path = folder + "/" + each->d_name;
        std::array<char, PATH_MAX> link{};
        if ((readlink(path.c_str(), link.data(), link.size() - 1) > 0) &&
            std::string_view(link.data()).starts_with(wanted)) {
            const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
            if (fd >= 0) {
                found = map_file(fd, own_number(pid));
            }
            error = errno;
            close(fd);
        }
    }
    errno = error;
    return found;
}

} // namespace

bool show_live() noexcept
{
    if (is_shown) {
        return true;
    }
    process_counters.layout = counters::right_layout;
    process_counters.pid    = static_cast<uint64_t>(getpid());
    if (childs == nullptr) {
        childs = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    }
    void *made =
        (childs != nullptr) && make_file() ? map(MAP_SHARED, own_fd) : nullptr;
    is_shown = true; // before a fork by another thread
    if ((made == nullptr) || !move_counters(made)) {
        const int error = errno;
        is_shown        = false;
        close(std::exchange(own_fd, -1));
        errno = error;
        return false;
    }
    return true;
}

bool give_room_to_others(void (*make_room)() noexcept) noexcept
{
    sigset_t all, before;
    bool started = true;

    sigfillset(&all); // the thread handles no signal
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        if (is_shown) {
            std::thread(give_room, make_room).detach();
        }
    } catch (const std::exception &) {
        started = false;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
}

bool forget_live() noexcept
{
    struct stat now {};

    if (!is_shown.exchange(false)) {
        return true;
    }
    const bool moved = move_counters(std::exchange(childs, nullptr));
    // The program may have closed the descriptor, and opened another file.
    if ((fstat(own_fd, &now) == 0) && (now.st_dev == own_file.st_dev) &&
        (now.st_ino == own_file.st_ino)) {
        close(own_fd);
    }
    own_fd = -1;
    return moved;
}

std::unique_ptr<counters> read_live(pid_t pid)
{
    const mapping shown = map_live(pid);
    return shown ? std::make_unique<counters>(*shown) : nullptr;
}

bool ask_others_for_room() noexcept
try {
    const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir("/proc"), closedir);
    std::vector<std::pair<mapping, uint32_t>> asked; // and their requests

    while (const dirent *each = all ? readdir(all.get()) : nullptr) {
        const pid_t pid = atoi(each->d_name);
        // A process that has registered nothing has no thread that answers.
        if (mapping page = (pid > 0) && (pid != getpid())
                               ? map_live(pid)
                               : mapping(nullptr, nullptr);
            page && (page->get("mapped_bytes") != 0)) {
            const uint32_t mine =
                __atomic_add_fetch(&page->wants_room, 1, __ATOMIC_RELEASE);
            futex(&page->wants_room, FUTEX_WAKE, INT_MAX);
            asked.emplace_back(std::move(page), mine);
        }
    }
    const size_t count = asked.size();
    const uint64_t end = nanoseconds_now() + 500'000'000;
    while (!asked.empty() && (nanoseconds_now() < end)) {
        usleep(1000);
        std::erase_if(asked, [](const auto &each) {
            const uint32_t gave =
                __atomic_load_n(&each.first->gave_room, __ATOMIC_ACQUIRE);
            return gave - each.second <= INT32_MAX; // modulo 2^32
        });
    }
    return asked.size() < count;
} catch (const std::bad_alloc &) {
    return false;
}

} // namespace ucx_ib_dmabuf
