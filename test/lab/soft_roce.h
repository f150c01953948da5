// SPDX-License-Identifier: BSD-3-Clause
/**
 * The parts of the tests of the lab's NIC: dma-bufs over shared memory, memory
 * regions, and two connected queue pairs of the first RDMA device. Not
 * thread-safe. Each failure throws an exception, which ends the test.
 */
#ifndef TEST_LAB_SOFT_ROCE_H
#define TEST_LAB_SOFT_ROCE_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>
#include <vector>

#include <infiniband/verbs.h>

namespace ucx_ib_dmabuf::test {

constexpr int ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/** Exports all of a memfd as a dma-buf, which the caller closes. Throws. */
int export_memory(int memory_fd, size_t size);

/** An exporter's memory: a dma-buf, and a mapping of its bytes. */
class dma_buf {
public:
    explicit dma_buf(size_t size);
    ~dma_buf();
    dma_buf(const dma_buf &)            = delete;
    dma_buf &operator=(const dma_buf &) = delete;

    /** The bytes; valid until release(). */
    uint8_t *bytes() { return m_bytes; }
    size_t size() const { return m_size; }
    int fd() const { return m_fd; }
    /** The shared memory behind it, which is not a dma-buf. */
    int memory_fd() const { return m_memory_fd; }
    /** Unmap the memory and close both descriptors. */
    void release();

private:
    size_t m_size;
    int m_memory_fd  = -1;
    int m_fd         = -1;
    uint8_t *m_bytes = nullptr;
};

struct mr_deleter {
    void operator()(ibv_mr *mr) const { ibv_dereg_mr(mr); }
};
using region = std::unique_ptr<ibv_mr, mr_deleter>;

/** The device with a protection domain and two connected queue pairs. */
class nic {
public:
    nic();
    /** Uses the caller's protection domain. */
    explicit nic(ibv_pd *pd);
    ~nic();
    nic(const nic &)            = delete;
    nic &operator=(const nic &) = delete;

    ibv_pd *pd() { return m_pd; }

    /** Register host memory. */
    region reg(std::vector<uint8_t> &memory);
    /** Register a dma-buf; throws std::system_error. */
    region reg(int fd, uint64_t offset, size_t length, uint64_t iova,
               int access = ALL_ACCESS);
    /** Registers and deregisters. Returns the errno, or 0 if it succeeds. */
    int reg_errno(int fd, uint64_t offset, size_t length, uint64_t iova,
                  int access = ALL_ACCESS);

    /**
     * Runs one RDMA operation from the first to the second queue pair and waits
     * for its completion. After an error the two are connected anew.
     *
     * @return The completion's status.
     */
    ibv_wc_status transfer(ibv_wr_opcode opcode, const void *local,
                           uint32_t lkey, uint64_t remote, uint32_t rkey,
                           size_t length);

private:
    void connect();
    void disconnect();

    bool m_owner           = true; /* of context and protection domain */
    ibv_context *m_context = nullptr;
    ibv_pd *m_pd           = nullptr;
    ibv_cq *m_cq           = nullptr;
    ibv_qp *m_qps[2]       = {};
};

} // namespace ucx_ib_dmabuf::test

#endif
