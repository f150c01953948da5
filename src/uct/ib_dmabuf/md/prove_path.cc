// SPDX-License-Identifier: BSD-3-Clause
#include "../cache/exports.h"
#include "../prove/loopback.h"
#include "../verbs/dmabuf_mr.h"
#include "nic.h"
#include <new>
#include <sys/mman.h>

// What a proof needs of a NIC and a GPU, all of it for the time of the proof.
namespace ucx_ib_dmabuf {
namespace {

// Of the NIC's own, as what UCX registers by itself is.
class host_pages {
public:
    host_pages(const protection_domain &pd, int access)
        : pd_(pd), bytes_(mmap(nullptr, proof_host_size, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
    {
        if (bytes_ != MAP_FAILED) {
            mr_ =
                pd.verbs->reg_iova(pd.verbs_pd, bytes_, proof_host_size,
                                   reinterpret_cast<uintptr_t>(bytes_), access);
        }
    }
    ~host_pages()
    {
        if (mr_ != nullptr) {
            verbs_dereg_mr(*pd_.verbs, mr_);
        }
        if (bytes_ != MAP_FAILED) {
            munmap(bytes_, proof_host_size);
        }
    }
    host_pages(const host_pages &)            = delete;
    host_pages &operator=(const host_pages &) = delete;

    bool registered() const { return mr_ != nullptr; }
    place at() const
    {
        return {reinterpret_cast<uintptr_t>(bytes_), mr_->lkey, mr_->rkey};
    }

private:
    const protection_domain &pd_;
    void *const bytes_;
    ibv_mr *mr_ = nullptr;
};

} // namespace

verdict nic::prove_piece(loopback &with, const place &piece)
{
    const host_pages host(pd_, access_);

    return host.registered()
               ? prove(with, gpu_, piece, host.at(), with.has_atomics())
               : verdict{finding::unknown, "host memory cannot be registered"};
}

verdict nic::prove_path(ladder_step step, int gpu, dmabuf_registration &by)
{
    loopback with(pd_);
    int fd = -1;

    if (with.problem() != nullptr) {
        return {finding::unknown, with.problem()};
    }
    const auto piece = gpu_.allocate_piece(gpu);
    if (!piece || (piece->length < proof_size)) {
        return {finding::unknown, "the GPU has no memory to try"};
    }
    exports memory(gpu_, piece->address, piece->length);
    void *handle = (memory.get(mapping_of(step), &fd) == UCS_OK)
                       ? by.reg(step, fd, piece->address, piece->length)
                       : nullptr;
    if (handle == nullptr) {
        return {finding::unknown, "memory to try cannot be registered"};
    }
    const place at =
        (by_uct_ib_ != nullptr)
            ? place{piece->address, handle_keys::of(handle)->lkey(),
                    handle_keys::of(handle)->rkey(layout_)}
            : place{piece->address, static_cast<ibv_mr *>(handle)->lkey,
                    static_cast<ibv_mr *>(handle)->rkey};
    verdict result = prove_piece(with, at);
    by.dereg(handle);
    return result;
}

std::optional<bool> nic::carries(ladder_step step, int gpu,
                                 dmabuf_registration &by) noexcept
try {
    const finding found = proven_->ask(
        {name(), gpu, step}, [&] { return prove_path(step, gpu, by); });
    return (found == finding::unknown)
               ? std::nullopt
               : std::optional(found == finding::carries);
} catch (const std::bad_alloc &) {
    return std::nullopt;
}

} // namespace ucx_ib_dmabuf
