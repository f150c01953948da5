// SPDX-License-Identifier: BSD-3-Clause
#include "memory_domain.h"
#include <algorithm>
#include <cerrno>
#include <new>
#include <uct/ib_dmabuf/gpu/gpu_memory.h>
#include <uct/ib_dmabuf/path/path_check.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/log.h>

namespace ucx_ib_dmabuf {
namespace {

// UCX's tables of addresses round ranges up to UCS_PGT_ADDR_ALIGN; the
// registration cache of UCX 1.16 to a cache line (UCX_RCACHE_ADDR_ALIGN).
constexpr uintptr_t rounded_to[] = {64, 16};

uint64_t type_bit(const gpu_vendor &gpu)
{
    return uint64_t{1} << gpu.memory_type();
}

// UCP may round the end of a range up beyond the allocation. Without all but
// one byte of its last block, the range ends in the same block, and inside.
size_t without_rounding(const reg_request &request)
{
    for (const uintptr_t block : rounded_to) {
        if (((request.start() + request.length) % block) == 0 &&
            request.length >= block) {
            return request.length - (block - 1);
        }
    }
    return request.length;
}

fallback_cause cause_of(ucs_status_t failure)
{
    return lacks_room(failure)                ? fallback_cause::no_room
           : (failure == UCS_ERR_UNSUPPORTED) ? fallback_cause::unsupported
           : (failure == UCS_ERR_BUSY)        ? fallback_cause::busy
                                              : fallback_cause::other;
}

reg_methods::path_checker make_checker(const protection_domain &pd,
                                       gpu_vendor &gpus, importer &by)
{
    return [&](int gpu, reg_method method, const registered_buffer *probe) {
        return check_path(pd, gpus, gpu, method, by, probe);
    };
}

// Idle registrations, this process's and others', may take all room.
bool make_room()
{
    process_state *shared = process_state::existing();
    const bool own =
        (shared != nullptr) && shared->registrations().evict_all_idle();
    return ask_others_for_room() || own;
}

} // namespace

void *uct_ib_importer::reg(int fd, size_t offset, uintptr_t address,
                           size_t length)
{
    const uct_md_mem_reg_params_t params{
        .field_mask =
            UCT_MD_MEM_REG_FIELD_FLAGS | UCT_MD_MEM_REG_FIELD_DMABUF_FD |
            UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET | UCT_MD_MEM_REG_FIELD_MEM_TYPE,
        .flags = UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_ACCESS_REMOTE_ATOMIC |
                 UCT_MD_MEM_FLAG_HIDE_ERRORS,
        .dmabuf_fd     = fd,
        .dmabuf_offset = offset,
        .mem_type      = type_};
    uct_mem_h made = nullptr;

    process_state::give_room();
    if (uct_ib_.reg({reinterpret_cast<void *>(address), length, &params},
                    &made) == UCS_OK) {
        return made;
    }
    errno = (errno == 0) ? EINVAL : errno; // if no verb was called
    return nullptr;
}

md_registrar::md_registrar(const saved_md_ops &uct_ib, gpu_vendor &gpus,
                           path_table &paths, bool checks)
    : uct_ib_(uct_ib), importer_(uct_ib, gpus.memory_type()),
      methods_(uct_ib.pd(), uct_ib.tries_data_direct(), importer_, paths,
               checks ? make_checker(uct_ib.pd(), gpus, importer_) : nullptr)
{
}

void md_registrar::dereg(void *handle)
{
    {
        // Waits for a thread that packs a key after checking for revocation.
        const std::lock_guard<std::mutex> wait(packing_);
    }
    methods_.dereg(static_cast<registration *>(handle));
}

void md_registrar::count_end(int gpu, ending why) noexcept
{
    process_counters.of(name(), gpu)
        .add((why == ending::evicted) ? pair_metric("evictions")
                                      : pair_metric("invalidations"));
}

void memory_domain::query(md_attributes *attributes) noexcept
{
    const uint64_t type = type_bit(shared_.gpu());
    attributes->reg_mem_types &= ~type; // peer memory on a broken path
    attributes->reg_mem_types |= offers_gpu_ ? type : 0;
    // With this flag UCP exports each buffer itself, and passes the dma-buf;
    // the plug-in registers whole allocations.
    attributes->flags &= ~uint64_t{UCT_MD_FLAG_REG_DMABUF};
}

// Lets uct_ib register memory that is not GPU memory.
ucs_status_t memory_domain::reg_host(const reg_request &request,
                                     uct_mem_h *handle)
{
    log_trace("ib_dmabuf: %s: %zu bytes at %p are no device memory: passed on",
              nic_.name(), request.length, request.address);
    return original_.reg(request, handle);
}

// Called after a device registration failed and was reported. UCP has a
// fallback if it asked to hide errors; otherwise the message fails.
ucs_status_t memory_domain::reg_otherwise(const reg_request &request, int gpu,
                                          ucs_status_t failure,
                                          uct_mem_h *handle)
{
    const char *why  = ucs_status_string(failure);
    const auto count = [&](fallback_way way) {
        process_counters.add_fallback(way, cause_of(failure), nic_.name(), gpu,
                                      request.length);
    };

    // Not on a broken path, which peer memory would use, too.
    if (may_use_peer_memory()) {
        log_debug("ib_dmabuf: %s: %zu bytes at %p are left to peer memory: %s",
                  nic_.name(), request.length, request.address, why);
        count(fallback_way::peer_memory);
        return original_.reg(request, handle);
    }
    if ((request.flags() & UCT_MD_MEM_FLAG_HIDE_ERRORS) != 0) {
        log_debug("ib_dmabuf: %s: %zu bytes at %p are left to UCP: %s",
                  nic_.name(), request.length, request.address, why);
        count(fallback_way::ucp);
        return failure;
    }
    warn_once(
        "lasting",
        format("%s: %zu bytes of GPU memory at %p cannot be registered (%s), "
               "and cannot be staged: what needs it fails. UCX has chosen its "
               "protocol, and keeps what it registers. What fails from the "
               "beginning it stages by itself, if the GPU is in use before UCX "
               "is initialised (cudaFree(0) before MPI_Init()); with "
               "UCX_IB_DMABUF_ENABLE=n it stages everything",
               nic_.name(), request.length, request.address, why));
    count(fallback_way::error);
    return failure;
}

// Makes a handle for an acquired region. Returns UCS_ERR_CANCELED if its memory
// was released meanwhile. The memory may still exist: another process's memory
// may be open twice.
ucs_status_t memory_domain::hand_out(const region *used, uintptr_t address,
                                     size_t length, uct_mem_h *handle)
{
    memh *created = nullptr;
    bool revoked;
    {
        const std::lock_guard<std::mutex> guard(nic_.packing());
        revoked = cache_.is_revoked(used);
        if (!revoked) {
            const registration &keys = *md_registrar::behind(*used);
            created = new (std::nothrow) memh(keys.lkey, keys.rkey);
        }
    }
    if (created == nullptr) {
        cache_.put(used, address, length);
        return revoked ? UCS_ERR_CANCELED : UCS_ERR_NO_MEMORY;
    }
    created->address = address;
    created->length  = length;
    created->used    = used;
    *handle          = created->to_uct();
    if (cache_.checks_each_use()) {
        original_.drop_from_ucp_cache(address, length);
    }
    return UCS_OK;
}

// Without a fallback the program ends with the operation: retries for some
// milliseconds cost less.
ucs_status_t memory_domain::reg_gpu(const reg_request &request,
                                    uct_mem_h *handle)
{
    const uintptr_t start = request.start();
    const size_t exact    = without_rounding(request);
    const bool needed =
        !peer_memory_ && ((request.flags() & UCT_MD_MEM_FLAG_HIDE_ERRORS) == 0);
    const region *used  = nullptr;
    ucs_status_t status = cache_.get(id_, start, exact, &used,
                                     needed ? rcache::effort::persistent
                                            : rcache::effort::normal);

    if (status == UCS_OK) {
        status = hand_out(used, start, exact, handle);
    }
    return (status == UCS_ERR_CANCELED) ? reg_gpu(request, handle) : status;
}

// Called if the plug-in did not register. uct_ib registers memory that is not
// known to be GPU memory. This is host memory, even if CUDA knows it, managed
// memory, and released memory; in a forked process it is all memory.
ucs_status_t memory_domain::reg_failed(reg_request request,
                                       ucs_status_t failure, uct_mem_h *handle)
{
    const size_t exact = without_rounding(request);
    segment_run found;

    ucs_status_t status = failure;
    if (status != UCS_ERR_NO_ELEM) {
        status =
            found.describe(shared_.gpu(), make_range(request.start(), exact));
    }
    switch (status) {
    case UCS_ERR_NO_ELEM:
        return reg_host(request, handle);
    case UCS_ERR_INVALID_PARAM:
        if (may_use_peer_memory()) { // accepts several allocations
            break;
        }
        ((request.flags() & UCT_MD_MEM_FLAG_HIDE_ERRORS) ? log_debug
                                                         : log_error)(
            "ib_dmabuf: the %zu bytes at %p begin in GPU memory and go beyond "
            "its end (0x%zx): register only what is mapped, in one allocation",
            request.length, request.address, found.range.hi);
        return status;
    case UCS_OK: // UCP may have rounded the end up, see without_rounding().
        request.length =
            std::min(request.length, found.range.hi - request.start());
        break;
    default: // GPU memory that the driver does not describe
        break;
    }
    return reg_otherwise(request, found.device, failure, handle);
}

// Registers after a cache miss.
ucs_status_t memory_domain::reg_new(const reg_request &request,
                                    uct_mem_h *handle)
{
    if (shared_.gpu().may_be_device(request.start(), request.length)) {
        const auto status = reg_gpu(request, handle);
        return (status == UCS_OK) ? UCS_OK
                                  : reg_failed(request, status, handle);
    }
    const auto status = reg_host(request, handle);
    // It may be GPU memory of an allocation that UCX did not see.
    return ((status != UCS_OK) && (reg_gpu(request, handle) == UCS_OK))
               ? UCS_OK
               : status;
}

// Looks up the cache first: only GPU memory is in it.
ucs_status_t memory_domain::reg(const reg_request &request,
                                uct_mem_h *handle) noexcept
{
    const uintptr_t start = request.start();
    const size_t exact    = without_rounding(request);

    if (asked_in_miss != nullptr) {
        asked_in_miss->add(id_);
    }
    const region *hit = cache_.find(id_, start, exact);
    const auto status = (hit != nullptr) ? hand_out(hit, start, exact, handle)
                                         : UCS_ERR_CANCELED;
    return (status == UCS_ERR_CANCELED) ? reg_new(request, handle) : status;
}

// The error does not identify the registration: the kernel has revoked one, or
// the NIC is gone with all of them.
void memory_domain::failed(ucs_status_t status) noexcept
{
    log_debug("ib_dmabuf: %s: an endpoint failed (%s): what is registered is "
              "registered anew for what follows",
              nic_.name(), ucs_status_string(status));
    shared_.recheck(nic_.name());
}

memory_domain::memory_domain(const saved_md_ops &original,
                             process_state &shared, bool peer_memory)
    : original_(original), shared_(shared), cache_(shared.registrations()),
      nic_(original_, shared.gpu(), shared.paths(),
           process_state::checks_paths()),
      peer_memory_(peer_memory),
      offers_gpu_(
          (process_state::may_register() &&
           registers_gpu_memory(shared.gpu(), nic_.methods(), make_room)) ||
          may_use_peer_memory()),
      id_(cache_.attach(nic_))
{
}

std::unique_ptr<md_ops> override_md(const saved_md_ops &original)
{
    process_state *shared = process_state::get();
    md_attributes attributes;

    if ((shared == nullptr) || (original.query(&attributes) != UCS_OK)) {
        return nullptr;
    }
    if ((attributes.flags & UCT_MD_FLAG_REG_DMABUF) == 0) {
        warn_once(
            format("no dma-bufs: %s", original.name()),
            format("%s registers no dma-bufs, as UCX says: it must be built "
                   "with an rdma-core that has ibv_reg_dmabuf_mr, and the "
                   "device's driver needs Linux 5.12 or later and must support "
                   "them. Messages in GPU memory that use it are staged "
                   "through host memory",
                   original.name()));
        return nullptr;
    }
    const bool peer_memory =
        (attributes.reg_mem_types & type_bit(shared->gpu())) != 0;
    std::unique_ptr<memory_domain> made;
    try {
        made = std::make_unique<memory_domain>(original, *shared, peer_memory);
    } catch (const std::bad_alloc &) {
        warn_no_memory();
        return nullptr;
    }
    if (!made->is_attached()) {
        warn_once("too many domains",
                  format("%s is left as it is, as %u memory domains are open "
                         "in this process: messages in GPU memory that use it "
                         "are staged through host memory. Open fewer contexts "
                         "of UCX",
                         original.name(), max_nics));
        return nullptr;
    }
    log_debug("ib_dmabuf: %s takes %s memory", original.name(),
              shared->gpu().name());
    return made;
}

} // namespace ucx_ib_dmabuf
