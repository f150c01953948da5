// SPDX-License-Identifier: BSD-3-Clause
#include "live_page.h"
#include <cerrno>
#include <climits>
#include <csignal>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {
namespace {

// This process's page. Other processes may map it, but change only their
// requests.
std::atomic<live_page *> own_page;
int own_fd;
struct stat own_file;
// Called before each answer. Written before the thread starts.
void (*before_answer)(bool room);

// Readers retry while the sequence is odd.
void publish(live_page *page, uint32_t asked)
{
    const uint32_t before = page->sequence.load(std::memory_order_relaxed);

    page->sequence.store(before + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    page->counters.read();
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
    page->size    = sizeof(live_page);
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

} // namespace ucx_ib_dmabuf
