// SPDX-License-Identifier: BSD-3-Clause
#include "nic.h"
#include <memory>
#include <new>
#include <uct/ib_dmabuf/gpu/dmabuf_exports.h>
#include <uct/ib_dmabuf/path/host_pages.h>
#include <uct/ib_dmabuf/path/loopback.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>
#include <utility>

// Allocates what a proof needs of a NIC and a GPU, until the proof ends.
namespace ucx_ib_dmabuf {

verdict nic::prove_path(ladder_step step, int gpu, dmabuf_registration &by)
{
    connection first = loopback::to_itself(uct_ib_.pd());
    if (!first.by) {
        return {finding::unknown, first.problem}; // before it costs GPU memory
    }
    const host_pages host(uct_ib_.pd(), proof_host_size);
    int fd = -1;

    if (!host.registered()) {
        return {finding::unknown, "host memory cannot be registered"};
    }
    const auto buffer = gpu_.allocate_probe_buffer(gpu);
    if (!buffer || (buffer->length < proof_size)) {
        return {finding::unknown, "the GPU has no memory to try"};
    }
    // Only a part of the buffer, which has 2 MiB or more: a NIC maps each page.
    const size_t mask   = gpu_.granularity() - 1;
    const size_t length = (proof_size + mask) & ~mask;
    dmabuf_exports memory(gpu_, buffer->address, length);
    void *handle = (memory.get(mapping_of(step), &fd) == UCS_OK)
                       ? by.reg(fd, memory.offset(), buffer->address, length)
                       : nullptr;
    if (handle == nullptr) {
        return {finding::unknown, "memory to try cannot be registered"};
    }
    const place at{buffer->address, handle_keys::of(handle)->lkey(),
                   handle_keys::of(handle)->rkey()};
    const auto end = [&](void *made) { by.dereg(made); };
    const std::unique_ptr<void, decltype(end)> ends(handle, end);
    const connector connect = [&] {
        return first.by ? std::move(first) : loopback::to_itself(uct_ib_.pd());
    };
    return prove(connect, gpu_, at, host.at());
}

proofs::path nic::path_of(ladder_step step, int gpu) const
{
    return {name(), gpu, step};
}

bool nic::is_refuted(ladder_step step, int gpu) noexcept
try {
    return proven_->is_refuted(path_of(step, gpu));
} catch (const std::bad_alloc &) {
    return false;
}

// An unproven path is used. If it is refuted later, the cache drops its
// registrations (open_nics::drop).
finding nic::judge(ladder_step step, int gpu, dmabuf_registration &by) noexcept
try {
    return proven_->ask(path_of(step, gpu),
                        [&] { return prove_path(step, gpu, by); });
} catch (const std::bad_alloc &) {
    return finding::unknown;
}

bool nic::has_refuted() const
{
    return (proven_ != nullptr) && proven_->has_refuted(name());
}

uint64_t nic::changes() const
{
    return (proven_ == nullptr) ? 0 : proven_->changes(name());
}

} // namespace ucx_ib_dmabuf
