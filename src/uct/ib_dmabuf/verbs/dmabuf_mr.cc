// SPDX-License-Identifier: BSD-3-Clause
#include "dmabuf_mr.h"
#include "../host/log.h"
#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace ucx_ib_dmabuf {

bool verbs_can_register_dmabuf(const protection_domain &pd, text *why)
{
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    int error         = EOPNOTSUPP;

    if (pd.verbs->reg_dmabuf != nullptr) {
        errno      = 0;
        ibv_mr *mr = pd.verbs->reg_dmabuf(pd.verbs_pd, 0, page, 0, -1,
                                          IBV_ACCESS_LOCAL_WRITE);
        error      = errno;
        if (mr != nullptr) { // no provider should, but then it can
            pd.verbs->dereg(mr);
            return true;
        }
    }
    if ((error == EOPNOTSUPP) || (error == EPROTONOSUPPORT)) {
        *why = format("%s registers no dma-bufs (%s): its driver needs Linux "
                      "5.12 and rdma-core 34 or later, and must support them",
                      pd.device_name(), strerror(error));
        return false;
    }
    log_debug("ib_dmabuf: %s registers dma-bufs (probe: %s)", pd.device_name(),
              strerror(error));
    return true;
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
