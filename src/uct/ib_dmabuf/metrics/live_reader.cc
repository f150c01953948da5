// SPDX-License-Identifier: BSD-3-Clause
#include "live_reader.h"
#include "histogram.h"
#include "live_page.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstddef>
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

constexpr size_t head_size = offsetof(live_page, text);
constexpr off_t size_max   = 1 << 20; // of what somebody else has us map

// What the process itself takes its number for: the last one of "NSpid", in the
// innermost of the containers that it is in.
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

// Pages of memory whose end stays where it is: else who reads it may die of
// SIGBUS. Of huge pages there may be none.
bool is_safe(int fd, off_t *size)
{
    const int seals = fcntl(fd, F_GET_SEALS);
    struct statfs where {};

    *size = lseek(fd, 0, SEEK_END);
    return (seals >= 0) && ((seals & F_SEAL_SHRINK) != 0) &&
           (fstatfs(fd, &where) == 0) && (where.f_type == TMPFS_MAGIC) &&
           (*size > off_t{head_size}) && (*size <= size_max);
}

// The mapping, or null (errno).
live_page *map_page(int fd, uint64_t whose, size_t *mapped)
{
    off_t size = 0;

    if (!is_safe(fd, &size)) {
        errno = EPROTO;
        return nullptr;
    }
    *mapped = static_cast<size_t>(size);
    void *const found =
        mmap(nullptr, *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
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
    munmap(found, *mapped);
    errno = right ? ENODATA : EPROTO; // ENODATA: it is another process's
    return nullptr;
}

bool is_line(std::string_view text)
{
    return text.ends_with('\n') &&
           std::ranges::all_of(text.substr(0, text.size() - 1), [](char each) {
               return (each >= ' ') && (each <= '~');
           });
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
        const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
        size_t size  = 0;
        live_page *page =
            (fd < 0) ? nullptr : map_page(fd, own_number(pid), &size);
        error = errno;
        close(fd);
        if (page != nullptr) {
            return std::unique_ptr<live_reader>(new live_reader(page, size));
        }
    }
    errno = all ? error : errno;
    return nullptr;
}

live_reader::~live_reader()
{
    munmap(page_, size_);
}

void live_reader::request(bool room)
{
    if (room && (size_ >= sizeof(live_page))) {
        ++page_->wants_room;
    }
    mine_ = page_->asked.fetch_add(1) + 1;
    syscall(SYS_futex, &page_->asked, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::string live_reader::answer() const
{
    const uint32_t first = page_->sequence.load(std::memory_order_acquire);
    const uint32_t after = page_->answered - mine_; // modulo 2^32
    const size_t length  = std::min<size_t>(page_->length, size_ - head_size);

    if (((first & 1) != 0) || (after > INT32_MAX)) {
        return {};
    }
    std::string text(page_->text, length);
    std::atomic_thread_fence(std::memory_order_acquire);
    if ((page_->sequence.load(std::memory_order_relaxed) != first) ||
        !is_line(text)) {
        text.clear();
    }
    return text;
}

std::string live_reader::ask(unsigned milliseconds)
{
    request();
    for (unsigned waited = 0;; ++waited) {
        std::string text = answer();
        if (!text.empty() || (waited >= milliseconds)) {
            return text;
        }
        usleep(1000);
    }
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
