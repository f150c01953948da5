// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf_mr.h"
#include "../host/log.h"
#include "../report.h"
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace ucx_ib_dmabuf {
namespace {

const char *device_name(const protection_domain &pd)
{
    return pd.verbs_pd->context->device->name;
}

struct meaning {
    ucs_status_t status;
    const char *remedy;
};

meaning meaning_of(int error)
{
    switch (error) {
    case ENOMEM:
    case ENOSPC:
        return {UCS_ERR_NO_MEMORY,
                "out of memory keys, of BAR1 or of locked memory: raise "
                "'ulimit -l', or limit what is registered with "
                "UCX_IB_DMABUF_MAX_SIZE or UCX_IB_DMABUF_MAX_REGIONS"};
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
        return {UCS_ERR_UNSUPPORTED,
                "the NIC's driver cannot map this GPU's memory: update kernel "
                "and rdma-core, and check that PCIe peer-to-peer is possible "
                "between the two"};
    case EINVAL:
        return {UCS_ERR_INVALID_PARAM,
                "the NIC's driver refuses this dma-buf: see dmesg"};
    default:
        return {UCS_ERR_IO_ERROR, "see dmesg"};
    }
}

} // namespace

bool verbs_can_register_dmabuf(const protection_domain &pd, text *why)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));

    errno      = 0;
    ibv_mr *mr = pd.verbs->reg_dmabuf(pd.verbs_pd, 0, page, 0, -1,
                                      IBV_ACCESS_LOCAL_WRITE);
    int error  = errno;
    if (mr != nullptr) { // no provider should, but then it can
        pd.verbs->dereg(mr);
        return true;
    }
    if ((error == EOPNOTSUPP) || (error == EPROTONOSUPPORT)) {
        *why = format("%s registers no dma-bufs (%s): its driver needs Linux "
                      "5.12 and rdma-core 34 or later, and must support them",
                      device_name(pd), strerror(error));
        return false;
    }
    log_debug("ib_dmabuf: %s registers dma-bufs (probe: %s)", device_name(pd),
              strerror(error));
    return true;
}

ucs_status_t verbs_reg_dmabuf_mr(const protection_domain &pd, int fd,
                                 uintptr_t iova, size_t length, int access,
                                 ibv_mr **mr)
{
    errno = 0;
    ibv_mr *result =
        pd.verbs->reg_dmabuf(pd.verbs_pd, 0, length, iova, fd, access);
    if (result == nullptr) {
        const int error    = errno;
        const meaning what = meaning_of(error);
        warn_once(format("register %d", error),
                  format("%s: ibv_reg_dmabuf_mr(address 0x%zx, %zu bytes) "
                         "failed: %s (errno %d). %s: %s",
                         device_name(pd), iova, length, strerror(error), error,
                         staged_otherwise, what.remedy));
        return what.status;
    }
    log_debug("ib_dmabuf: %s: registered 0x%zx..0x%zx lkey 0x%x rkey 0x%x",
              device_name(pd), iova, iova + length, result->lkey, result->rkey);
    *mr = result;
    return UCS_OK;
}

void verbs_dereg_mr(const verbs_functions &verbs, ibv_mr *mr)
{
    const uint32_t lkey = mr->lkey;
    const int error     = verbs.dereg(mr);

    if (error != 0) {
        warn_once(format("deregister %d", error),
                  format("ibv_dereg_mr(lkey 0x%x) failed: %s", lkey,
                         strerror(error)));
    }
}

} // namespace ucx_ib_dmabuf
