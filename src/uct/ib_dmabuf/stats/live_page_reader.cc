// SPDX-License-Identifier: BSD-3-Clause
#include "live_page.h"
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <linux/futex.h>
#include <linux/magic.h>
#include <sstream>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace ucx_ib_dmabuf {
namespace {

// The number by which a process knows itself: the last one of "NSpid", of the
// innermost container.
uint64_t own_number(pid_t pid)
{
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    auto number = static_cast<uint64_t>(pid);

    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("NSpid:")) {
            std::istringstream words(line.substr(6));
            while (words >> number) {
            }
            break;
        }
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

bool live_reader::answer(described_counters *out) const
{
    const uint32_t first = page_->sequence.load(std::memory_order_acquire);
    const uint32_t after = page_->answered - mine_; // modulo 2^32

    if (((first & 1) != 0) || (after > INT32_MAX)) {
        return false;
    }
    const bool good = out->copy(page_->counters);
    std::atomic_thread_fence(std::memory_order_acquire);
    return good && (page_->sequence.load(std::memory_order_relaxed) == first);
}

bool live_reader::ask(unsigned milliseconds, described_counters *out)
{
    request();
    for (unsigned waited = 0; !answer(out); ++waited) {
        if (waited >= milliseconds) {
            return false;
        }
        usleep(1000);
    }
    return true;
}

bool ask_others_for_room() noexcept
try {
    const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir("/proc"), closedir);
    std::vector<std::unique_ptr<live_reader>> asked;
    const auto now = std::make_unique<described_counters>();

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
        std::erase_if(
            asked, [&](const auto &page) { return page->answer(now.get()); });
    }
    return asked.size() < count;
} catch (const std::bad_alloc &) {
    return false;
}

} // namespace ucx_ib_dmabuf
