// SPDX-License-Identifier: BSD-3-Clause
#include "live_reader.h"
#include "live_page.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <dirent.h>
#include <fcntl.h>
#include <fstream>
#include <linux/futex.h>
#include <sstream>
#include <string_view>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

// Of "/proc/PID/fd"; the file, opened once more, or -1.
int open_page(const std::string &folder)
{
    const std::string wanted = std::string("/memfd:") + live_page_name;
    const std::unique_ptr<DIR, int (*)(DIR *)> all(opendir(folder.c_str()),
                                                   closedir);
    if (!all) {
        return -1;
    }
    while (const dirent *each = readdir(all.get())) {
        const std::string path = folder + "/" + each->d_name;
        std::array<char, PATH_MAX> link{};
        if ((readlink(path.c_str(), link.data(), link.size() - 1) > 0) &&
            std::string_view(link.data()).starts_with(wanted)) {
            return open(path.c_str(), O_RDWR | O_CLOEXEC);
        }
    }
    errno = ENODATA;
    return -1;
}

// All of a page, or MAP_FAILED. One that its process can cut off, or that is no
// memory at all, would end who reads it.
void *map_page(int fd)
{
    constexpr int sealed = F_SEAL_SHRINK | F_SEAL_SEAL;
    const int seals      = fcntl(fd, F_GET_SEALS);

    return ((seals >= 0) && ((seals & sealed) == sealed) &&
            (lseek(fd, 0, SEEK_END) == off_t{sizeof(live_page)}))
               ? mmap(nullptr, sizeof(live_page), PROT_READ | PROT_WRITE,
                      MAP_SHARED, fd, 0)
               : MAP_FAILED;
}

// What render_json() makes is so. Anybody can show a page, and have an
// administrator's terminal do what stands there.
bool is_line(std::string_view text)
{
    return text.ends_with('\n') &&
           std::ranges::all_of(text.substr(0, text.size() - 1), [](char byte) {
               return (byte >= ' ') && (byte <= '~');
           });
}

// A process's number as it sees it itself, which in a container is another one.
uint64_t own_number(pid_t pid)
{
    constexpr std::string_view name = "NSpid:";
    std::ifstream lines("/proc/" + std::to_string(pid) + "/status");
    auto number = static_cast<uint64_t>(pid);
    std::string line;

    while (std::getline(lines, line)) {
        if (line.starts_with(name)) {
            std::istringstream numbers(line.substr(name.size()));
            for (uint64_t each = 0; numbers >> each;) {
                number = each; // the last one is the innermost
            }
            return number;
        }
    }
    return number;
}

} // namespace

std::unique_ptr<live_reader> live_reader::open(pid_t pid)
{
    const int fd = open_page("/proc/" + std::to_string(pid) + "/fd");

    if (fd < 0) {
        return nullptr;
    }
    void *const found = map_page(fd);
    close(fd);
    if (found == MAP_FAILED) {
        errno = EPROTO;
        return nullptr;
    }
    auto *page = static_cast<live_page *>(found);
    if ((page->magic != live_page::right_magic) ||
        (page->version != live_page::right_version) ||
        (page->pid != own_number(pid))) {
        munmap(found, sizeof(live_page));
        errno = EPROTO;
        return nullptr;
    }
    return std::unique_ptr<live_reader>(new live_reader(page));
}

live_reader::~live_reader()
{
    munmap(page_, sizeof(live_page));
}

std::string live_reader::ask(unsigned milliseconds)
{
    const uint32_t mine = page_->asked.fetch_add(1) + 1;

    syscall(SYS_futex, &page_->asked, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
    for (unsigned waited = 0; waited <= milliseconds; ++waited) {
        const uint32_t first = page_->sequence.load(std::memory_order_acquire);
        const uint32_t after = page_->answered - mine; // modulo 2^32
        const size_t length =
            std::min<size_t>(page_->length, sizeof(page_->text));
        std::string text(page_->text, length);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (((first & 1) == 0) && (after <= INT32_MAX) &&
            (page_->sequence.load(std::memory_order_relaxed) == first)) {
            return is_line(text) ? text : std::string();
        }
        usleep(1000);
    }
    return {};
}

} // namespace ucx_ib_dmabuf
