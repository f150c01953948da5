// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <system_error>
#include <vector>

// The parts of the tests of the lab's NIC: dma-bufs over shared memory, memory
// regions, and two connected queue pairs of the first RDMA device. Not
// thread-safe. Each failure throws an exception, which ends the test.
namespace ucx_ib_dmabuf::test {

constexpr int ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// Exports all of a memfd as a dma-buf, which the caller closes.
int export_memory(int memory_fd, size_t size);

// An exporter's memory: a dma-buf, and a mapping of its bytes.
class dma_buf {
public:
    explicit dma_buf(size_t size);
    ~dma_buf() { release(); }
    dma_buf(const dma_buf &)            = delete;
    dma_buf &operator=(const dma_buf &) = delete;

    // The bytes; valid until release().
    uint8_t *bytes() { return bytes_; }
    size_t size() const { return size_; }
    int fd() const { return fd_; }
    // The shared memory behind it, which is not a dma-buf.
    int memory_fd() const { return memory_fd_; }
    // Unmaps the memory and closes both descriptors.
    void release();

private:
    size_t size_;
    int memory_fd_  = -1;
    int fd_         = -1;
    uint8_t *bytes_ = nullptr;
};

struct mr_deleter {
    void operator()(ibv_mr *mr) const { ibv_dereg_mr(mr); }
};
using region = std::unique_ptr<ibv_mr, mr_deleter>;

// The device with a protection domain and two connected queue pairs.
class nic {
public:
    nic();
    // Uses the caller's protection domain.
    explicit nic(ibv_pd *pd);
    ~nic();
    nic(const nic &)            = delete;
    nic &operator=(const nic &) = delete;

    ibv_pd *pd() { return pd_; }

    // Registers host memory.
    region reg(std::vector<uint8_t> &memory);
    // Registers a dma-buf. Throws std::system_error.
    region reg(int fd, uint64_t offset, size_t length, uint64_t iova,
               int access = ALL_ACCESS);

    // Runs one RDMA operation from the first to the second queue pair and
    // returns the status of its completion. After an error the two are
    // connected anew.
    ibv_wc_status transfer(ibv_wr_opcode opcode, const void *local,
                           uint32_t lkey, uint64_t remote, uint32_t rkey,
                           size_t length);

private:
    void connect();
    void disconnect();

    bool is_owner_        = true; // of context and protection domain
    ibv_context *context_ = nullptr;
    ibv_pd *pd_           = nullptr;
    ibv_cq *cq_           = nullptr;
    ibv_qp *qps_[2]       = {};
};

} // namespace ucx_ib_dmabuf::test
