// SPDX-License-Identifier: BSD-3-Clause
#include "release.h"

namespace ucx_ib_dmabuf::ucm {
namespace {

std::atomic<bool> graph_memory{false};

} // namespace

void release::announce_free(uint64_t address)
{
    if (address != 0) {
        announce(ranges().remove(address));
    }
}

void release::announce_host_free(uint64_t address)
{
    if (address != 0) {
        announce(ranges().remove(address), UCS_MEMORY_TYPE_HOST);
    }
}

// Only graph memory may be freed in a capture.
void release::announce_pool_free(uint64_t address, void *stream,
                                 bool per_thread)
{
    if ((address != 0) && !(graph_memory.load(std::memory_order_relaxed) &&
                            is_capturing(stream, per_thread))) {
        announce(ranges().retire(address));
    }
}

void release::announce_ipc_close(uint64_t address)
{
    announce_free(address);
    range_.is   = state::owned;
    is_counted_ = range_.size != 0;
}

void release::announce(const memory_range &listed, ucs_memory_type_t type)
{
    const bool is_listed = listed.size != 0;
    range_               = is_listed ? listed : range_from_driver(listed.base);
    // Like UCM: announces memory that the driver does not know as one byte,
    // which matches any registration there.
    if (range_.size == 0) {
        range_.size = 1;
    }
    const bool may_be_cached = take_registered(range_.base, range_.size) ||
                               !is_listed || (type == UCS_MEMORY_TYPE_HOST);
    announce_release(range_.base, range_.size, type, may_be_cached);
}

void release::announce_unmap(uint64_t address, size_t size)
{
    if (size != 0) {
        range_ = {address, size};
        announce_release(address, size);
    }
}

void release::announce_owned(state which, uint64_t owner)
try {
    modules_ = modules().take(which, owner);
    owned_   = ranges().take(which, owner);
    for (const memory_range &range : owned_) {
        announce_release(range.base, range.size);
    }
} catch (const std::bad_alloc &) {
    announce_without_memory();
}

void release::announce_all()
{
    announce_everything();
    all_ = true;
}

void release::announce_graph_free()
{
    if (graph_memory.load(std::memory_order_relaxed)) {
        announce_all();
    }
}

void release::finish(cuda_result result)
{
    if (all_) { // a driver may destroy it and return an earlier error
        announce_vanished();
    } else if (result != CUDA_SUCCESS) {
        take_back(true);
    } else {
        const relaxed_capture relaxed(driver);
        if (ask(range_.base) != answer::gone) {
            take_back(false); // still open elsewhere, or reallocated
        }
    }
}

// The memory still exists. UCX would treat it as host memory.
void release::take_back(bool size_is_sure)
{
    if (range_.size != 0) {
        if (range_.serial != 0) {
            range_.exact = size_is_sure;
            note_range(ranges(), range_);
        }
        (range_.is == state::owned) ? announce_unexported(range_)
                                    : announce_memory(range_.base, range_.size);
    }
    for (const memory_range &range : owned_) {
        if (range.is == state::owned) {
            note_range(ranges(), range);
            announce_unexported(range);
        }
    }
    for (const memory_range &module : modules_) {
        note_range(modules(), module);
    }
}

bool is_capturing(void *stream, bool per_thread)
{
    auto status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (per_thread && (stream == nullptr)) {
        stream = stream_per_thread();
    }
    return (driver.stream_is_capturing(static_cast<CUstream>(stream),
                                       &status) == CUDA_SUCCESS) &&
           (status != CU_STREAM_CAPTURE_STATUS_NONE);
}

void note_graph_memory()
{
    graph_memory.store(true, std::memory_order_relaxed);
    note_missing(missing_hook::graph);
}

} // namespace ucx_ib_dmabuf::ucm
