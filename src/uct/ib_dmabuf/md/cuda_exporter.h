// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_MD_CUDA_EXPORTER_H_
#define UCX_IB_DMABUF_MD_CUDA_EXPORTER_H_

#include "../cache/provider.h"
#include "../cuda/driver.h"

namespace ucx_ib_dmabuf {

// The cache's view of CUDA.
class cuda_exporter final : public exporter {
public:
    explicit cuda_exporter(const driver &cuda);

    ucs_status_t describe(uintptr_t address, size_t length,
                          extent *out) override;
    bool is_current(uintptr_t address, size_t length,
                    uint64_t identity) override;
    ucs_status_t export_range(uintptr_t address, size_t length, int *fd,
                              size_t *offset) override;
    size_t granularity() const override { return page_size_; }

private:
    const driver &cuda_;
    const size_t page_size_;
};

} // namespace ucx_ib_dmabuf

#endif
