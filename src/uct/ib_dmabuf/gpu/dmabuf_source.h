// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// How a NIC reaches the memory behind a dma-buf. `standard` is the exporter's
// choice: the coherent link if the GPU has one, else PCIe. `pcie` is PCIe.
enum class mapping_type : uint8_t { standard, pcie };

// A range of GPU memory that is being registered, exported on demand. Not
// thread-safe.
class dmabuf_source {
public:
    // Returns a dma-buf in which the range begins at offset(). The source owns
    // it, and returns the same one until it is dropped. Logs failures.
    virtual ucs_status_t get(mapping_type how, int *fd) = 0;
    // Closes that dma-buf; the next get() exports again.
    virtual void drop(mapping_type how) noexcept = 0;
    // In bytes, a multiple of the page size.
    size_t offset() const { return offset_; }

protected:
    explicit dmabuf_source(size_t offset = 0) : offset_(offset) {}
    ~dmabuf_source() = default;

private:
    const size_t offset_;
};

} // namespace ucx_ib_dmabuf
