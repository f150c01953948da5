// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_MPI_EXCHANGE_H_
#define UCX_IB_DMABUF_TEST_MPI_EXCHANGE_H_

#include "job.h"
#include <cuda.h>
#include <vector>

namespace ucx_ib_dmabuf::test {

inline CUdeviceptr as_pointer(const uint8_t *data)
{
    return reinterpret_cast<CUdeviceptr>(data);
}

// A message from rank 0 to rank 1 and one back, of the memory that each of the
// two has there; all bytes are checked. What UCX copies of them counts.
void exchange_at(job &in, uint8_t *mine, memory kind, size_t length);

// Memory that is not a message's, and stays as it is.
class bystanders {
public:
    explicit bystanders(job &in) : job_(in) {}

    void add(uint8_t *data, memory kind, size_t length);
    void expect_unchanged(const char *when) const;

private:
    struct one {
        uint8_t *data;
        memory kind;
        size_t length;
        uint64_t number;
    };

    job &job_;
    std::vector<one> all_;
};

// Physical memory of the current GPU, for mapping.
class handle {
public:
    explicit handle(size_t length);
    ~handle();
    handle(const handle &)            = delete;
    handle &operator=(const handle &) = delete;

    // Others than the GPU it is of cannot reach it there.
    void map(CUdeviceptr at) const;
    void unmap(CUdeviceptr at) const;

private:
    size_t length_;
    CUmemGenericAllocationHandle handle_ = 0;
};

// Addresses of device memory with nothing behind them yet.
struct reservation {
    explicit reservation(size_t size);
    ~reservation();
    reservation(const reservation &)            = delete;
    reservation &operator=(const reservation &) = delete;

    uint8_t *at(size_t offset = 0) const
    {
        return reinterpret_cast<uint8_t *>(base) + offset;
    }

    const size_t length;
    CUdeviceptr base = 0;
};

} // namespace ucx_ib_dmabuf::test

#endif
