// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <uct/ib_dmabuf/gpu/dmabuf_exports.h>
#include <unistd.h>

namespace ladder_test {

using namespace ucx_ib_dmabuf;

// Exports memory files, which verbs_sim accepts as dma-bufs, as cuda/ does.
class memfd_gpu final : public exporter {
public:
    bool coherent          = false;
    bool knows_pcie        = true; // CUDA 12.8 or later
    ucs_status_t fail      = UCS_OK;
    ucs_status_t fail_pcie = UCS_OK;
    // Number of exports in each mapping.
    unsigned standard = 0;
    unsigned pcie     = 0;

    ucs_status_t export_range(uintptr_t, size_t length, int *fd) override
    {
        if (fail == UCS_OK) {
            ++standard;
            *fd = make(length, false);
        }
        return fail;
    }
    ucs_status_t export_range_pcie(uintptr_t, size_t length, int *fd) override
    {
        if ((fail != UCS_OK) || (fail_pcie != UCS_OK)) {
            return (fail != UCS_OK) ? fail : fail_pcie;
        }
        if (coherent && !knows_pcie) {
            return UCS_ERR_UNSUPPORTED;
        }
        ++pcie;
        *fd = make(length, coherent);
        return UCS_OK;
    }

    static int make(size_t length, bool in_pcie)
    {
        const int fd = memfd_create("dma-buf", MFD_CLOEXEC);

        if ((ftruncate(fd, static_cast<off_t>(length)) != 0) ||
            (in_pcie && (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0))) {
            return -1;
        }
        return fd;
    }

    // The ladder does not call this.
    ucs_status_t describe(uintptr_t, allocation *) override
    {
        return UCS_ERR_NO_ELEM;
    }
    bool is_current(uintptr_t, uint64_t) override { return false; }
    size_t granularity() const override { return 4096; }
};

} // namespace ladder_test
