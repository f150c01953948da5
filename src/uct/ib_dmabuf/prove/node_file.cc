// SPDX-License-Identifier: BSD-3-Clause
#include "node_file.h"
#include "../report.h"
#include <algorithm>
#include <cstdint>
#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

constexpr char file_name[] = "paths";
constexpr char new_name[]  = "paths.new";
constexpr size_t max_size  = size_t{1} << 20; // some 2000 paths

class descriptor {
public:
    explicit descriptor(int fd) : fd_(fd) {}
    ~descriptor()
    {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    descriptor(const descriptor &)            = delete;
    descriptor &operator=(const descriptor &) = delete;

    int get() const { return fd_; }
    bool valid() const { return fd_ >= 0; }

private:
    const int fd_;
};

// Of this user, whom nobody else can write to or replace.
bool is_ours(int fd, mode_t type, mode_t access)
{
    struct stat found {};

    return (fstat(fd, &found) == 0) && (found.st_uid == geteuid()) &&
           (found.st_mode == (type | access));
}

int open_folder(const std::string &name)
{
    const int fd =
        open(name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if ((fd >= 0) && !is_ours(fd, S_IFDIR, S_IRWXU)) {
        close(fd);
        return -1;
    }
    return fd;
}

// As it is now; nothing in it if there is none, or one that is not to be
// trusted.
class current_file {
public:
    // Not to wait if somebody put a pipe there.
    explicit current_file(int folder)
        : file_(openat(folder, file_name,
                       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)),
          all_(read_all())
    {
    }

    const std::string &all() const { return all_; }
    // Somebody who did not get the lock has taken it away meanwhile.
    bool is_gone() const
    {
        struct stat found {};

        return file_.valid() &&
               ((fstat(file_.get(), &found) != 0) || (found.st_nlink == 0));
    }

private:
    std::string read_all() const;

    const descriptor file_;
    const std::string all_;
};

std::string current_file::read_all() const
{
    std::string all;
    char some[4096];
    ssize_t count = 0;

    if (!file_.valid() || !is_ours(file_.get(), S_IFREG, S_IRUSR | S_IWUSR)) {
        return {};
    }
    while ((count = read(file_.get(), some, sizeof(some))) > 0) {
        all.append(some, static_cast<size_t>(count));
        if (all.size() > max_size) {
            return {};
        }
    }
    return (count == 0) ? all : std::string();
}

// A new file in the place of the old one, or nothing changes.
bool write_all(int folder, const current_file &old, const std::string &all)
{
    unlinkat(folder, new_name, 0); // of one who died
    const descriptor file(openat(
        folder, new_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
        S_IRUSR | S_IWUSR));
    if (!file.valid()) {
        return false;
    }
    if ((fchmod(file.get(), S_IRUSR | S_IWUSR) != 0) || // whatever the umask
        (write(file.get(), all.data(), all.size()) != ssize_t(all.size())) ||
        old.is_gone() || (renameat(folder, new_name, folder, file_name) != 0)) {
        unlinkat(folder, new_name, 0);
        return false;
    }
    return true;
}

// For who does not get the lock. One who has it, and was stopped, may be about
// to put back what was in the file: he either sees that the file is gone, or
// does not find his new one, or has put it there before the last line.
void unlink_all(int folder)
{
    unlinkat(folder, file_name, 0);
    unlinkat(folder, new_name, 0);
    unlinkat(folder, file_name, 0);
}

// FNV-1a: for what went wrong, not for who may write there.
uint64_t checksum(std::string_view of)
{
    uint64_t sum = 0xcbf29ce484222325;

    for (const char byte : of) {
        sum = (sum ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
    }
    return sum;
}

std::string line_of(std::string_view key)
{
    std::string line(key);
    line += format(" %016zx\n", size_t{checksum(key)}).c_str();
    return line;
}

// Calls for each whole line, with its end.
template <class Call>
void for_lines(std::string_view all, const Call &call)
{
    for (size_t end; (end = all.find('\n')) != std::string_view::npos;
         all.remove_prefix(end + 1)) {
        call(all.substr(0, end + 1));
    }
}

bool is_line(std::string_view line)
{
    const size_t key_end = line.rfind(' ');

    return (key_end != std::string_view::npos) &&
           (line == line_of(line.substr(0, key_end)));
}

// The first word of a key is the boot's.
std::string_view boot_of(std::string_view line)
{
    return line.substr(0, line.find(' '));
}

// Who has it is at work for a moment; one who was stopped there is not waited
// for.
class locked {
public:
    explicit locked(int folder) : folder_(folder)
    {
        for (int i = 0; (i < 50) && !holds_; ++i) {
            holds_ = flock(folder, LOCK_EX | LOCK_NB) == 0;
            if (!holds_) {
                usleep(1000);
            }
        }
    }
    // Not left to close(): the child of a fork may have the descriptor, too.
    ~locked()
    {
        if (holds_) {
            flock(folder_, LOCK_UN);
        }
    }
    locked(const locked &)            = delete;
    locked &operator=(const locked &) = delete;

    explicit operator bool() const { return holds_; }

private:
    const int folder_;
    bool holds_ = false;
};

// The file without some keys, or with one more. False if it is as it was.
bool change(int folder, std::span<const std::string> without,
            std::string_view more)
{
    const locked alone(folder);

    if (!alone) {
        return false;
    }
    const std::string_view boot =
        boot_of(more.empty() ? std::string_view(without.front()) : more);
    const current_file before(folder);
    std::string after;
    for_lines(before.all(), [&](std::string_view line) {
        const std::string_view key = line.substr(0, line.rfind(' '));
        if (is_line(line) && (key != more) && (boot_of(line) == boot) &&
            (std::find(without.begin(), without.end(), key) == without.end())) {
            after += line;
        }
    });
    const std::string added = more.empty() ? std::string() : line_of(more);
    if (after.size() + added.size() > max_size) {
        after.clear();
    }
    after += added;
    return (after == before.all()) || write_all(folder, before, after);
}

} // namespace

node_file::node_file()
    : folder_(format("/dev/shm/ucx-ib-dmabuf-%u", geteuid()).c_str())
{
}

bool node_file::has(std::string_view key) const noexcept
try {
    const descriptor folder(open_folder(folder_));
    bool found = false;

    if (folder.valid() && !key.empty()) {
        const std::string wanted = line_of(key);
        for_lines(current_file(folder.get()).all(),
                  [&](std::string_view line) { found |= line == wanted; });
    }
    return found;
} catch (const std::bad_alloc &) {
    return false;
}

void node_file::keep(std::string_view key) const noexcept
try {
    if (!key.empty()) {
        mkdir(folder_.c_str(), S_IRWXU);
        const descriptor folder(open_folder(folder_));
        if (folder.valid()) {
            change(folder.get(), {}, key);
        }
    }
} catch (const std::bad_alloc &) { // it is not kept
}

// What cannot be taken out, as the disk is full or another process has the
// lock, goes with all the others.
void node_file::drop(std::span<const std::string> keys) const noexcept
{
    const descriptor folder(open_folder(folder_));

    if (!folder.valid() || keys.empty()) {
        return;
    }
    bool changed = false;
    try {
        changed = change(folder.get(), keys, {});
    } catch (const std::bad_alloc &) { // as it says
    }
    if (!changed) {
        unlink_all(folder.get());
    }
}

void node_file::drop_all() const noexcept
{
    const descriptor folder(open_folder(folder_));

    if (folder.valid()) {
        unlink_all(folder.get());
    }
}

} // namespace ucx_ib_dmabuf
