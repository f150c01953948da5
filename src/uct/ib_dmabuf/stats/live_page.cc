// SPDX-License-Identifier: BSD-3-Clause
#include "live_page.h"
#include "counters.h"
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <linux/futex.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

// This process's page. Other processes may map it, but change only their
// requests.
std::atomic<live_page *> own_page;
int own_fd;
struct stat own_file;
// Called before each answer. Written before the thread starts.
void (*before_answer)(bool room);

// Readers retry while the sequence is odd. They may write to the page, too, so
// the text is rendered elsewhere.
void publish(live_page *page, uint32_t asked)
{
    static std::array<char, json_max> memory; // instead of a large stack
    const std::string_view line = render_json(memory);
    const uint32_t before = page->sequence.load(std::memory_order_relaxed);

    page->sequence.store(before + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < line.size(); ++i) {
        page->text[i].store(line[i], std::memory_order_relaxed);
    }
    page->length.store(line.size(), std::memory_order_relaxed);
    page->answered.store(asked, std::memory_order_relaxed);
    page->sequence.store(before + 2, std::memory_order_release);
}

// glibc's size of its data on each thread's stack: a copy of all thread_local
// variables. Looked up on loading, as show_live() is called with a lock held.
auto *const taken_of_stack =
    reinterpret_cast<size_t (*)(const pthread_attr_t *)>(
        dlsym(RTLD_DEFAULT, "__pthread_get_minstack"));

// Instead of megabytes, which mlockall() would populate.
size_t stack_size(const pthread_attr_t *how)
{
    constexpr size_t ours = 256 << 10;

    return ours + ((taken_of_stack != nullptr) ? taken_of_stack(how) : 0);
}

void *answer(void *mine)
{
    auto *page     = static_cast<live_page *>(mine);
    uint32_t given = 0;

    for (;;) {
        const uint32_t asked  = page->asked.load();
        const uint32_t wanted = page->wants_room.load();
        if (before_answer != nullptr) {
            before_answer(wanted != std::exchange(given, wanted));
        }
        publish(page, asked);
        usleep(10'000); // so that steady requests do not cost a core
        if ((syscall(SYS_futex, &page->asked, FUTEX_WAIT, asked, nullptr,
                     nullptr, 0) != 0) &&
            (errno != EAGAIN) && (errno != EINTR)) {
            return nullptr; // rather than spin
        }
    }
}

// Starts a detached thread that handles no signal.
int start_answering(live_page *page)
{
    pthread_attr_t how;
    sigset_t all, before;
    pthread_t id;

    if (const int error = pthread_attr_init(&how); error != 0) {
        return error;
    }
    pthread_attr_setdetachstate(&how, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&how, stack_size(&how));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&id, &how, answer, page);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&how);
    return error;
}

// The size is sealed: a reader beyond the end would die.
int create_file()
{
    rlimit most{};

    // A larger file would raise a signal that ends the process.
    if ((getrlimit(RLIMIT_FSIZE, &most) == 0) &&
        (most.rlim_cur < sizeof(live_page))) {
        errno = EFBIG;
        return -1;
    }
    const int fd =
        memfd_create(live_page_name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if ((fd >= 0) &&
        ((ftruncate(fd, sizeof(live_page)) != 0) ||
         (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
          0))) {
        const int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
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
           (lseek(fd, 0, SEEK_END) >= off_t{sizeof(live_page)});
}

// Returns the mapping, or nullptr and sets errno; ENODATA: the page is another
// process's, which this process reads or has inherited.
live_page *map_page(int fd, uint64_t whose)
{
    void *const found = is_safe(fd)
                            ? mmap(nullptr, sizeof(live_page),
                                   PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                            : MAP_FAILED;
    if (found == MAP_FAILED) {
        errno = EPROTO;
        return nullptr;
    }
    auto *page       = static_cast<live_page *>(found);
    const bool right = (page->magic == live_page::right_magic) &&
                       (page->version == live_page::right_version);
    if (right && (page->pid == whose)) {
        return page;
    }
    munmap(found, sizeof(live_page));
    errno = right ? ENODATA : EPROTO;
    return nullptr;
}

} // namespace

bool show_live(void (*before)(bool room)) noexcept
{
    if (own_page.load() != nullptr) {
        return true;
    }
    const int fd = create_file();
    if (fd < 0) {
        return false;
    }
    void *const made = mmap(nullptr, sizeof(live_page), PROT_READ | PROT_WRITE,
                            MAP_SHARED, fd, 0);
    if (made == MAP_FAILED) {
        close(fd);
        return false;
    }
    // A child must not write its parent's page.
    madvise(made, sizeof(live_page), MADV_DONTFORK);
    auto *page    = static_cast<live_page *>(made);
    page->version = live_page::right_version;
    page->pid     = static_cast<uint64_t>(getpid());
    page->magic   = live_page::right_magic;
    fstat(fd, &own_file);
    own_fd        = fd;
    before_answer = before;
    if (const int error = start_answering(page); error != 0) {
        munmap(made, sizeof(live_page));
        close(fd);
        errno = error;
        return false;
    }
    own_page = page;
    return true;
}

void forget_live() noexcept
{
    struct stat now {};

    // The program may have closed the descriptor, and opened another file.
    if ((own_page.exchange(nullptr) != nullptr) && (fstat(own_fd, &now) == 0) &&
        (now.st_dev == own_file.st_dev) && (now.st_ino == own_file.st_ino)) {
        close(own_fd);
    }
}

std::unique_ptr<live_reader> live_reader::open(pid_t pid)
{
    const std::string folder = "/proc/" + std::to_string(pid) + "/fd";
    const std::string wanted = std::string("/memfd:") + live_page_name;
    const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir(folder.c_str()),
                                                   closedir);
    int error = ENODATA;

    while (const dirent *each = all ? readdir(all.get()) : nullptr) {
        const std::string path = folder + "/" + each->d_name;
        std::array<char, PATH_MAX> link{};
        if ((readlink(path.c_str(), link.data(), link.size() - 1) <= 0) ||
            !std::string_view(link.data()).starts_with(wanted)) {
            continue;
        }
        const int fd    = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
        live_page *page = (fd < 0) ? nullptr : map_page(fd, own_number(pid));
        error           = errno;
        close(fd);
        if (page != nullptr) {
            return std::unique_ptr<live_reader>(new live_reader(page));
        }
    }
    errno = all ? error : errno;
    return nullptr;
}

live_reader::~live_reader()
{
    munmap(page_, sizeof(live_page));
}

void live_reader::request(bool room)
{
    page_->wants_room += room ? 1 : 0;
    mine_ = page_->asked.fetch_add(1) + 1;
    syscall(SYS_futex, &page_->asked, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::string live_reader::answer() const
{
    const uint32_t first = page_->sequence.load(std::memory_order_acquire);
    const uint32_t after = page_->answered - mine_; // modulo 2^32
    const size_t length  = page_->length;
    std::string line;

    if (((first & 1) != 0) || (after > INT32_MAX) || (length > json_max)) {
        return line;
    }
    line.resize(length);
    for (size_t i = 0; i < length; ++i) {
        line[i] = page_->text[i].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    return (page_->sequence.load(std::memory_order_relaxed) == first) ? line
                                                                      : "";
}

bool ask_others_for_room() noexcept
try {
    const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir("/proc"), closedir);
    std::vector<std::unique_ptr<live_reader>> asked;

    while (const dirent *each = all ? readdir(all.get()) : nullptr) {
        const pid_t pid = atoi(each->d_name);
        if ((pid > 0) && (pid != getpid())) {
            if (auto page = live_reader::open(pid)) {
                page->request(true);
                asked.push_back(std::move(page));
            }
        }
    }
    const size_t count = asked.size();
    const uint64_t end = nanoseconds_now() + 500'000'000;
    while (!asked.empty() && (nanoseconds_now() < end)) {
        usleep(1000);
        std::erase_if(asked,
                      [](const auto &page) { return !page->answer().empty(); });
    }
    return asked.size() < count;
} catch (const std::bad_alloc &) {
    return false;
}

} // namespace ucx_ib_dmabuf
