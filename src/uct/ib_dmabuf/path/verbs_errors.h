// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// The kernel's ENOTSUPP, which no user-space header defines.
constexpr int kernel_enotsupp = 524;

enum class error_scope {
    pair,    // this NIC and GPU, in this way: lasts
    memory,  // this range or dma-buf
    passing, // room or time: may pass
};

struct verbs_error {
    int number;
    error_scope scope;
    ucs_status_t status;
    const char *remedy;
};

// Sources: ib_core, uverbs_std_types_mr.c, umem_dmabuf.c and mlx5's mr.c (Linux
// 5.12 to 6.18); NVIDIA's nv-dmabuf.c (drivers 570 to 595).
inline constexpr verbs_error known_errors[] = {
    // nv_dma_buf_attach() from 580 on refuses an importer without peer-to-peer.
    // It refuses the standard mapping on a chipset without peer-to-peer, and
    // the PCIe mapping for a NIC outside the coherent GPU's IOMMU group.
    {kernel_enotsupp, error_scope::pair, UCS_ERR_UNSUPPORTED,
     "the NVIDIA driver does not let this NIC reach this GPU's memory: see "
     "dmesg, and the driver's GrdmaPciTopoCheckOverride"},
    // The driver has no reg_user_mr_dmabuf, or the kernel no on-demand paging;
    // for Data Direct also an address that is not aligned to pages.
    {EOPNOTSUPP, error_scope::pair, UCS_ERR_UNSUPPORTED,
     "the NIC's driver cannot map this GPU's memory: update kernel and "
     "rdma-core, and check that PCIe peer-to-peer is possible between the two"},
    // A kernel before 5.12 does not know the method; for Data Direct, one
    // before 6.12 does not know the attribute.
    {EPROTONOSUPPORT, error_scope::pair, UCS_ERR_UNSUPPORTED,
     "the kernel is too old for this registration: update it"},
    // A range beyond the dma-buf, different page offsets, forbidden access
    // flags, or a Data Direct device that is gone.
    {EINVAL, error_scope::memory, UCS_ERR_INVALID_PARAM,
     "the NIC's driver refuses this dma-buf: see dmesg"},
    // Also the kernel's error if the exporter fails to map
    // (dma_buf_map_attachment): BAR1 is full, or with the drivers 570 and 575 a
    // case that is ENOTSUPP from 580 on.
    {ENOMEM, error_scope::passing, UCS_ERR_NO_MEMORY,
     "out of memory keys, of BAR1 or of locked memory: raise 'ulimit -l', or "
     "limit what is registered with UCX_IB_DMABUF_MAX_SIZE or "
     "UCX_IB_DMABUF_MAX_REGIONS"},
    {ENOSPC, error_scope::passing, UCS_ERR_NO_MEMORY,
     "out of memory keys: limit what is registered with "
     "UCX_IB_DMABUF_MAX_SIZE or UCX_IB_DMABUF_MAX_REGIONS"},
    // uverbs returns it for every call after ib_uverbs_remove_one(), mlx5 for
    // commands that its firmware does not finish.
    {EIO, error_scope::memory, UCS_ERR_IO_ERROR,
     "the NIC was removed or reset, or its firmware failed: see dmesg. A "
     "program that had it open must be restarted to use it again"},
    // The RDMA cgroup's limit of objects (rdmacg_try_charge), or mlx5 firmware
    // without resources (MLX5_CMD_STAT_NO_RES_ERR).
    {EAGAIN, error_scope::passing, UCS_ERR_NO_MEMORY,
     "out of memory keys, or of what the container may have of them (rdma.max "
     "of its cgroup): limit what is registered with UCX_IB_DMABUF_MAX_REGIONS"},
    {EBUSY, error_scope::passing, UCS_ERR_BUSY, "it is tried again"},
    {EINTR, error_scope::passing, UCS_ERR_BUSY, "it is tried again"},
};
inline constexpr verbs_error unknown_error = {0, error_scope::memory,
                                              UCS_ERR_IO_ERROR, "see dmesg"};

// Looks up the errno of a failed dma-buf registration. An unknown errno has the
// scope `memory`.
inline const verbs_error &meaning_of(int error)
{
    const auto *found =
        std::ranges::find(known_errors, error, &verbs_error::number);

    return (found != std::end(known_errors)) ? *found : unknown_error;
}

// "Operation not supported (errno 95)"
inline text describe_error(int error)
{
    return format("%s (errno %d)",
                  error == kernel_enotsupp ? "Not supported by the exporter"
                                           : strerror(error),
                  error);
}

} // namespace ucx_ib_dmabuf
