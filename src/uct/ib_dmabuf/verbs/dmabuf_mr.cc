// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf_mr.h"
#include <cerrno>
#include <cstring>
#include <ucs/debug/log_def.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

bool verbs_can_register_dmabuf(const verbs_calls &verbs, ibv_pd *pd, text *why)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const char *name  = verbs.get_device_name(pd->context->device);
    int error         = EOPNOTSUPP;

    if (verbs.reg_dmabuf_mr != nullptr) {
        errno = 0;
        ibv_mr *mr =
            verbs.reg_dmabuf_mr(pd, 0, page, 0, -1, IBV_ACCESS_LOCAL_WRITE);
        error = errno;
        if (mr != nullptr) { // no provider should, but then it can
            verbs.dereg_mr(mr);
            return true;
        }
    }
    if ((error == EOPNOTSUPP) || (error == EPROTONOSUPPORT)) {
        *why = format("%s registers no dma-bufs (%s): its driver needs Linux "
                      "5.12 and rdma-core 34 or later, and must support them",
                      name, strerror(error));
        return false;
    }
    ucs_debug("ib_dmabuf: %s registers dma-bufs (probe: %s)", name,
              strerror(error));
    return true;
}

void verbs_dereg_mr(const verbs_calls &verbs, ibv_mr *mr)
{
    const uint32_t lkey = mr->lkey;
    const int error     = verbs.dereg_mr(mr);

    if (error != 0) {
        warn_once(format("deregister %d", error),
                  format("ibv_dereg_mr(lkey 0x%x) failed: %s", lkey,
                         strerror(error)));
    }
}

} // namespace ucx_ib_dmabuf
