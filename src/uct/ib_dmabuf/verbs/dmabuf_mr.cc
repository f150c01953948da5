// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf_mr.h"
#include "../report.h"
#include <cerrno>
#include <cstring>
#include <ucs/debug/log_def.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

const char *device_name(const ibv_pd *pd)
{
    return ibv_get_device_name(pd->context->device);
}

ucs_status_t status_of(int error)
{
    switch (error) {
    case ENOMEM:
    case ENOSPC:
        return UCS_ERR_NO_MEMORY;
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
        return UCS_ERR_UNSUPPORTED;
    case EINVAL:
        return UCS_ERR_INVALID_PARAM;
    default:
        return UCS_ERR_IO_ERROR;
    }
}

const char *remedy(int error)
{
    switch (error) {
    case ENOMEM:
    case ENOSPC:
        return "out of memory keys, of BAR1 or of locked memory: raise "
               "'ulimit -l', or limit what is registered with "
               "UCX_IB_DMABUF_MAX_SIZE or UCX_IB_DMABUF_MAX_REGIONS";
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
        return "the NIC's driver cannot map this GPU's memory: update kernel "
               "and rdma-core, and check that PCIe peer-to-peer is possible "
               "between the two";
    case EINVAL:
        return "the NIC's driver refuses this dma-buf: see dmesg";
    default:
        return "see dmesg";
    }
}

} // namespace

bool verbs_can_register_dmabuf(ibv_pd *pd, text *why)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

    errno      = 0;
    ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, page, 0, -1, IBV_ACCESS_LOCAL_WRITE);
    int error  = errno;
    if (mr != nullptr) { // no provider should, but then it can
        ibv_dereg_mr(mr);
        return true;
    }
    if ((error == EOPNOTSUPP) || (error == EPROTONOSUPPORT)) {
        *why = format("%s registers no dma-bufs (%s): its driver needs Linux "
                      "5.12 and rdma-core 34 or later, and must support them",
                      device_name(pd), strerror(error));
        return false;
    }
    ucs_debug("ib_dmabuf: %s registers dma-bufs (probe: %s)", device_name(pd),
              strerror(error));
    return true;
}

ucs_status_t verbs_reg_dmabuf_mr(ibv_pd *pd, int fd, size_t offset,
                                 uintptr_t iova, size_t length, int access,
                                 ibv_mr **mr)
{
    errno             = 0;
    ibv_mr *result    = ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
    const int error   = errno;
    const char *cause = strerror(error);

    if (result == nullptr) {
        warn_once(format("register %d", error),
                  format("%s: ibv_reg_dmabuf_mr(address 0x%zx, %zu bytes) "
                         "failed: %s (errno %d). %s: %s",
                         device_name(pd), iova, length, cause, error,
                         staged_otherwise, remedy(error)));
        return status_of(error);
    }
    ucs_debug("ib_dmabuf: %s: registered 0x%zx..0x%zx lkey 0x%x rkey 0x%x",
              device_name(pd), iova, iova + length, result->lkey, result->rkey);
    *mr = result;
    return UCS_OK;
}

void verbs_dereg_mr(ibv_mr *mr)
{
    const uint32_t lkey = mr->lkey;
    const int error     = ibv_dereg_mr(mr);

    if (error != 0) {
        warn_once(format("deregister %d", error),
                  format("ibv_dereg_mr(lkey 0x%x) failed: %s", lkey,
                         strerror(error)));
    }
}

} // namespace ucx_ib_dmabuf
