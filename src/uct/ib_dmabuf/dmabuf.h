// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "host/types.h"
#include <cstdint>

namespace ucx_ib_dmabuf {

// How a NIC reaches the memory behind a dma-buf. `standard` is the exporter's
// choice: the coherent link where the GPU has one, else PCIe. `pcie` is PCIe.
enum class mapping_type : uint8_t { standard, pcie };

// A range of GPU memory that is being registered, exported when somebody wants
// it. Used by one thread at a time.
class dmabuf_source {
public:
    // A dma-buf in which the range begins at offset(); it stays the source's,
    // and is the same one until it is dropped. Failures are logged.
    virtual ucs_status_t get(mapping_type how, int *fd) = 0;
    // Nobody gets that dma-buf any more.
    virtual void drop(mapping_type how) noexcept = 0;
    // Bytes, whole pages.
    size_t offset() const { return offset_; }

protected:
    explicit dmabuf_source(size_t offset = 0) : offset_(offset) {}
    ~dmabuf_source() = default;

private:
    const size_t offset_;
};

} // namespace ucx_ib_dmabuf
