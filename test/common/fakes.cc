// SPDX-License-Identifier: BSD-3-Clause
#include "fakes.h"
#include <algorithm>
#include <common/alloc_faults.h>
#include <cstdio>
#include <fcntl.h>
#include <utility>

namespace fakes {

using alloc_faults::exempt; // nothing of the fakes is under test
using ucx_ib_dmabuf::allocation;
using ucx_ib_dmabuf::mapping_type;

std::atomic<uint64_t> complaints{0};

namespace {

// Each dma-buf is a duplicate of this descriptor, as opening files is slow.
const int any_file = open("/dev/null", O_RDONLY | O_CLOEXEC);

void complain(const char *what)
{
    if (++complaints <= 20) {
        fprintf(stderr, "fake hardware: %s\n", what);
    }
}

void tell(const observer &of, call what, uintptr_t address, size_t length)
{
    if (of) {
        of(what, address, length);
    }
}

void fire(std::function<void()> &what)
{
    if (what) {
        std::exchange(what, nullptr)();
    }
}

} // namespace

void faults::fail_call(uint64_t n, ucs_status_t status)
{
    status_ = status;
    at_     = calls_ + n;
}

void faults::clear()
{
    at_     = 0;
    always_ = UCS_OK;
}

ucs_status_t faults::next()
{
    uint64_t call = ++calls_;
    if (always_ != UCS_OK) {
        return static_cast<ucs_status_t>(always_.load());
    }
    return call == at_ ? static_cast<ucs_status_t>(status_.load()) : UCS_OK;
}

uint64_t gpu::alloc(uintptr_t base, size_t size, int device, bool exportable,
                    bool vmm)
{
    std::lock_guard<std::mutex> locked(lock_);
    auto after = blocks_.lower_bound(base);
    if ((after != blocks_.end() && after->first < base + size) ||
        find(base) != blocks_.end()) {
        complain("allocated twice");
    }
    blocks_[base] = {size, ++last_id_, device, exportable, vmm};
    return last_id_;
}

void gpu::free(uintptr_t base)
{
    std::lock_guard<std::mutex> locked(lock_);
    if (blocks_.erase(base) == 0) {
        complain("freed what is not allocated");
    }
}

bool gpu::allocated(uintptr_t base) const
{
    std::lock_guard<std::mutex> locked(lock_);
    return blocks_.count(base) != 0;
}

size_t gpu::size_at(uintptr_t base) const
{
    std::lock_guard<std::mutex> locked(lock_);
    auto it = blocks_.find(base);
    return it == blocks_.end() ? 0 : it->second.size;
}

gpu::blocks::const_iterator gpu::find(uintptr_t address) const
{
    auto it = blocks_.upper_bound(address);
    if (it == blocks_.begin()) {
        return blocks_.end();
    }
    --it;
    return address - it->first < it->second.size ? it : blocks_.end();
}

// Returns the blocks in the range, or none if a page of it has no block.
std::vector<segment> gpu::find(uintptr_t address, size_t length) const
{
    std::vector<segment> result;
    size_t reached = 0; // bytes of the range, in whole pages
    auto it        = find(address);
    if (it == blocks_.end()) {
        it = blocks_.lower_bound(address);
    }
    for (; it != blocks_.end(); ++it) {
        const auto &[base, all] = *it;
        if (base > address &&
            base - address >= std::min(reached + page_, length)) {
            break;
        }
        result.push_back({base, all.size, all.id});
        reached = (base + all.size - address + page_ - 1) / page_ * page_;
    }
    return reached < length ? std::vector<segment>() : result;
}

uint64_t gpu::id_at(uintptr_t address) const
{
    std::lock_guard<std::mutex> locked(lock_);
    auto it = find(address);
    return it == blocks_.end() ? 0 : it->second.id;
}

ucs_status_t gpu::look(uintptr_t address, allocation *out) const
{
    std::lock_guard<std::mutex> locked(lock_);
    auto it = find(address);
    if (it == blocks_.end()) {
        return UCS_ERR_NO_ELEM;
    }
    *out = {it->first, it->second.size, it->second.id, it->second.device,
            it->second.vmm};
    out->in_chunks = chunk != 0;
    return it->second.exportable ? UCS_OK : UCS_ERR_UNSUPPORTED;
}

ucs_status_t gpu::judge(uintptr_t address, size_t length) const
{
    allocation first, next;
    ucs_status_t status = look(address, &first);
    if (status != UCS_OK || length == 0) {
        return status != UCS_OK ? status : UCS_ERR_INVALID_PARAM;
    }
    uintptr_t end = first.base + first.size;
    while (length > end - address) {
        if (!first.joins || look(end, &next) != UCS_OK || next.base != end ||
            !next.joins || next.device != first.device) {
            return UCS_ERR_INVALID_PARAM;
        }
        end += next.size;
    }
    return UCS_OK;
}

ucs_status_t gpu::describe(uintptr_t address, allocation *out)
{
    const exempt from_it;
    ucs_status_t status = describe_faults.next();
    if (status == UCS_OK) {
        status = look(address, out);
    }
    if (status == UCS_OK) {
        fire(after_describe);
    }
    return status;
}

bool gpu::is_current(uintptr_t address, uint64_t identity)
{
    const exempt from_it;
    ++identity_calls;
    return id_at(address) == identity;
}

ucs_status_t gpu::export_range(uintptr_t address, size_t length, int *fd)
{
    const exempt from_it;
    tell(each_call, call::export_range, address, length);
    if (address % page_ != 0 || length % page_ != 0 || length == 0) {
        complain("unaligned export");
        return UCS_ERR_INVALID_PARAM;
    }
    ucs_status_t status = export_faults.next();
    if (status != UCS_OK) {
        return status;
    }
    std::unique_lock<std::mutex> locked(lock_);
    std::vector<segment> segments = find(address, length);
    if (segments.empty()) {
        return UCS_ERR_INVALID_PARAM;
    }
    const int made = fcntl(any_file, F_DUPFD_CLOEXEC, 0);
    if (made < 0) {
        return UCS_ERR_IO_ERROR;
    }
    *fd        = made;
    int device = blocks_.find(segments[0].base)->second.device;
    // Replaces a closed dma-buf with the same descriptor number.
    exported_[*fd] = {std::move(segments), ++last_export_, length, device};
    locked.unlock();
    fire(during_export);
    return UCS_OK;
}

std::vector<segment> gpu::contents(int fd, size_t length) const
{
    std::lock_guard<std::mutex> locked(lock_);
    auto it = exported_.find(fd);
    if (it == exported_.end() || fcntl(fd, F_GETFD) == -1) {
        complain("registered something that is no open dma-buf");
        return {};
    }
    if (length == 0 || length > it->second.length) {
        complain("registered beyond the dma-buf");
        return {};
    }
    return it->second.segments;
}

uint64_t gpu::map(int fd)
{
    std::lock_guard<std::mutex> locked(lock_);
    const dmabuf &from = exported_[fd];
    mapping &all       = mappings_[from.number];
    if (all.imports++ == 0) {
        all.length   = from.length;
        all.device   = from.device;
        window &into = windows_[from.device];
        into.now += from.length;
        into.max = std::max(into.max, into.now);
    }
    return from.number;
}

void gpu::unmap(uint64_t number)
{
    std::lock_guard<std::mutex> locked(lock_);
    auto it = mappings_.find(number);
    if (it == mappings_.end()) {
        complain("unmapped what is not mapped");
    } else if (--it->second.imports == 0) {
        windows_[it->second.device].now -= it->second.length;
        mappings_.erase(it);
    }
}

size_t gpu::mapped(int device) const
{
    std::lock_guard<std::mutex> locked(lock_);
    auto it = windows_.find(device);
    return it == windows_.end() ? 0 : it->second.now;
}

size_t gpu::max_mapped(int device) const
{
    std::lock_guard<std::mutex> locked(lock_);
    auto it = windows_.find(device);
    return it == windows_.end() ? 0 : it->second.max;
}

uint64_t registration::id_at(uintptr_t at) const
{
    for (const segment &p : segments) {
        if (at >= address && at - address < length && at >= p.base &&
            at - p.base < p.size) {
            return p.id;
        }
    }
    return 0;
}

ucs_status_t nic::reg(ucx_ib_dmabuf::dmabuf_exports &memory, int,
                      uintptr_t address, size_t length, void **handle)
{
    const exempt from_it;
    int fd              = -1;
    ucs_status_t status = memory.get(mapping_type::standard, &fd);
    if (status != UCS_OK) {
        return status;
    }
    fire(during_reg);
    status = reg_faults.next();
    if (status != UCS_OK) {
        return status;
    }
    auto made      = std::make_unique<registration>();
    made->address  = address;
    made->length   = length;
    made->segments = memory_.contents(fd, length);
    if (made->segments.empty()) {
        return UCS_ERR_INVALID_PARAM;
    }
    std::unique_lock<std::mutex> locked(lock_);
    if (length > max_bytes_ || bytes_ > max_bytes_ - length) {
        locked.unlock();
        fire(after_refusal);
        return UCS_ERR_NO_MEMORY;
    }
    made->mapping = memory_.map(fd);
    ++live_;
    ++registered;
    bytes_ += length;
    if (bytes_ > max_seen_) {
        max_seen_ = bytes_.load();
    }
    all_.insert(made.get());
    *handle = made.release();
    locked.unlock();
    fire(after_reg);
    return UCS_OK;
}

void nic::dereg(void *handle)
{
    const exempt from_it;
    tell(each_call, call::dereg, 0, 0);
    std::unique_lock<std::mutex> locked(lock_);
    auto *gone = static_cast<registration *>(handle);
    if (all_.erase(gone) == 0) {
        complain("deregistered twice");
        return;
    }
    gone->live = false;
    gone->segments.clear();
    memory_.unmap(gone->mapping);
    --live_;
    ++deregistered;
    bytes_ -= gone->length;
    dead_.emplace_back(gone);
    if (dead_.size() > 4096) {
        dead_.pop_front();
    }
    locked.unlock();
    fire(after_dereg);
}

void nic::drop_from_ucp_cache(uintptr_t address, size_t length)
{
    if (asked_back) {
        asked_back(address, length);
    }
}

void nic::each(const std::function<void(const registration &)> &see) const
{
    std::lock_guard<std::mutex> locked(lock_);
    for (const registration *one : all_) {
        see(*one);
    }
}

nic::~nic()
{
    for (registration *one : all_) {
        complain("still registered at the end");
        delete one;
    }
}

} // namespace fakes
