// SPDX-License-Identifier: BSD-3-Clause
#include "udmabuf_vendor.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>
#include <utility>

using ucx_ib_dmabuf::allocation;

namespace {

constexpr char udmabuf_path[] = "/dev/udmabuf";

void check(bool good, const char *what)
{
    if (!good) {
        throw std::system_error(errno, std::generic_category(), what);
    }
}

} // namespace

udmabuf_vendor::udmabuf_vendor()
    : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE)))
{
    memory_ = memfd_create("gpu", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    check(memory_ >= 0, "memfd_create");
    check(ftruncate(memory_, memory_size) == 0, "ftruncate");
    check(fcntl(memory_, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "F_ADD_SEALS");
    device_ = open(udmabuf_path, O_RDWR | O_CLOEXEC);
    check(device_ >= 0, udmabuf_path);
    void *mapped = mmap(nullptr, memory_size, PROT_READ | PROT_WRITE,
                        MAP_SHARED, memory_, 0);
    check(mapped != MAP_FAILED, "mmap");
    base_ = reinterpret_cast<uintptr_t>(mapped);
}

udmabuf_vendor::~udmabuf_vendor()
{
    munmap(reinterpret_cast<void *>(base_), memory_size);
    close(device_);
    close(memory_);
}

void udmabuf_vendor::tell(uintptr_t address, size_t length)
{
    if (told_ != nullptr) {
        told_->on_change(address, length);
    }
}

// A dma-buf keeps its pages; the file gets others.
void udmabuf_vendor::clear(uintptr_t address, size_t length)
{
    check(fallocate(memory_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    static_cast<off_t>(address - base_),
                    static_cast<off_t>(length)) == 0,
          "fallocate");
}

uintptr_t udmabuf_vendor::allocate(size_t size, unsigned segments)
{
    const unsigned count = std::max(1u, segments);
    uintptr_t place      = base_;
    std::lock_guard<std::mutex> guard(mutex_);

    size = (size + page_ - 1) & ~(page_ - 1);
    for (const auto &[address, one] : blocks_) {
        if (address - place >= count * size) {
            break;
        }
        place = address + one.size;
    }
    if (base_ + memory_size - place < count * size) {
        throw std::bad_alloc();
    }
    for (unsigned i = 0; i < count; ++i) {
        blocks_[place + i * size] = {size, ++last_identity_, segments != 0,
                                     i + 1 < count};
    }
    return place;
}

void udmabuf_vendor::release(uintptr_t address)
{
    for (bool more = true; more;) {
        const block gone = blocks_.at(address);
        tell(address, gone.size);
        std::lock_guard<std::mutex> guard(mutex_);
        blocks_.erase(address);
        clear(address, gone.size);
        address += gone.size;
        more = gone.goes_on;
    }
}

void udmabuf_vendor::replace(uintptr_t address)
{
    tell(address, blocks_.at(address).size);
    std::lock_guard<std::mutex> guard(mutex_);
    block &one   = blocks_.at(address);
    one.identity = ++last_identity_;
    clear(address, one.size);
}

void udmabuf_vendor::miss_events(const char *why)
{
    std::exchange(told_, nullptr)->on_events_missed(why);
}

// Called with the lock held, as is has().
udmabuf_vendor::blocks::const_iterator
udmabuf_vendor::find(uintptr_t address) const
{
    const auto after = blocks_.upper_bound(address);

    if (after == blocks_.begin()) {
        return blocks_.end();
    }
    const auto at = std::prev(after);
    return (address - at->first < at->second.size) ? at : blocks_.end();
}

// Returns whether the range is valid and all of it is allocated.
bool udmabuf_vendor::has(uintptr_t address, size_t length) const
{
    const uintptr_t end = address + length;

    for (auto at = find(address); (address < end) && (at != blocks_.end());
         at      = find(address)) {
        address = at->first + at->second.size;
    }
    return (length - 1 < memory_size) && (address >= end);
}

ucx_ib_dmabuf::ucs_status_t udmabuf_vendor::describe(uintptr_t address,
                                                     allocation *out)
{
    std::lock_guard<std::mutex> guard(mutex_);
    const auto at = find(address);

    if (at == blocks_.end()) {
        return UCS_ERR_NO_ELEM;
    }
    *out = {at->first, at->second.size, at->second.identity, 0,
            at->second.joins};
    return UCS_OK;
}

bool udmabuf_vendor::is_current(uintptr_t address, uint64_t identity)
{
    allocation now;
    return (describe(address, &now) == UCS_OK) && (now.identity == identity);
}

ucx_ib_dmabuf::ucs_status_t udmabuf_vendor::export_range(uintptr_t address,
                                                         size_t length, int *fd)
{
    udmabuf_create request{};
    std::lock_guard<std::mutex> guard(mutex_);

    if (!has(address, length) || (address % page_ != 0) ||
        (length % page_ != 0)) {
        return UCS_ERR_INVALID_PARAM;
    }
    request.memfd  = static_cast<unsigned>(memory_);
    request.flags  = UDMABUF_FLAGS_CLOEXEC;
    request.offset = address - base_;
    request.size   = length;
    const int made = ioctl(device_, UDMABUF_CREATE, &request);
    if (made < 0) {
        return UCS_ERR_IO_ERROR;
    }
    *fd = made;
    return UCS_OK;
}

ucx_ib_dmabuf::ucs_status_t
udmabuf_vendor::copy_to_host(void *host, uintptr_t device, size_t length)
{
    std::lock_guard<std::mutex> guard(mutex_);

    if (!has(device, length)) {
        return UCS_ERR_INVALID_ADDR;
    }
    memcpy(host, reinterpret_cast<void *>(device), length);
    return UCS_OK;
}

ucx_ib_dmabuf::ucs_status_t udmabuf_vendor::copy_from_host(uintptr_t device,
                                                           const void *host,
                                                           size_t length)
{
    std::lock_guard<std::mutex> guard(mutex_);

    if (!has(device, length)) {
        return UCS_ERR_INVALID_ADDR;
    }
    memcpy(reinterpret_cast<void *>(device), host, length);
    return UCS_OK;
}
