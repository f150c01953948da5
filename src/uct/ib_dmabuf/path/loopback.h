// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <sys/mman.h>
#include <uct/ib_dmabuf/report.h>
#include <uct/ib_dmabuf/ucx/verbs.h>

namespace ucx_ib_dmabuf {

struct registered_buffer {
    uint64_t address = 0;
    uint32_t lkey = 0, rkey = 0;

    registered_buffer operator+(uint64_t offset) const
    {
        return {address + offset, lkey, rkey};
    }
};

// The access that a check needs.
constexpr int all_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

// Host memory that a NIC reaches, for the life of the object.
class host_pages {
public:
    // `length` in bytes. May fail, see registered().
    host_pages(const protection_domain &pd, size_t length)
        : pd_(pd), length_(length),
          bytes_(mmap(nullptr, length, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
    {
        if (bytes_ != MAP_FAILED) {
            // In old kernels a fork gives the parent new pages, not the child.
            madvise(bytes_, length, MADV_DONTFORK);
            mr_ = pd.verbs->reg_iova(pd.verbs_pd, bytes_, length, address(),
                                     all_access);
        }
    }
    ~host_pages()
    {
        if (mr_ != nullptr) {
            pd_.verbs->dereg(mr_);
        }
        if (bytes_ != MAP_FAILED) {
            munmap(bytes_, length_);
        }
    }
    host_pages(const host_pages &)            = delete;
    host_pages &operator=(const host_pages &) = delete;

    bool registered() const { return mr_ != nullptr; }
    registered_buffer at() const { return {address(), mr_->lkey, mr_->rkey}; }

private:
    uintptr_t address() const { return reinterpret_cast<uintptr_t>(bytes_); }

    const protection_domain &pd_;
    const size_t length_;
    void *const bytes_;
    ibv_mr *mr_ = nullptr;
};

enum class verb : uint8_t { write, read, fetch_add };

// An operation of a NIC between local memory (by its lkey) and remote memory
// (by its rkey). An atomic one adds 1.
struct transfer {
    verb what;
    registered_buffer local, remote;
    uint32_t length;
};

// A connection of a NIC with itself over an active port, in the protection
// domain. Destroys its two queue pairs. For one thread.
class loopback {
public:
    static constexpr size_t max_transfers = 16; // at a time

    explicit loopback(const protection_domain &pd);
    ~loopback();
    loopback(const loopback &)            = delete;
    loopback &operator=(const loopback &) = delete;

    // The reason if it did not connect, else nullptr. It is of no use then.
    const char *problem() const { return problem_; }
    bool has_atomics() const { return atomics_; }
    // Runs the transfers in order. Returns nullopt when all have succeeded,
    // else the error, after which the connection is of no use. UCX waits for
    // seconds; this waits less, so the caller repeats them after a timeout.
    std::optional<text> run(std::span<const transfer> all);
    // Whether the error is a timeout: a busy NIC may answer later.
    bool is_silent() const { return silent_; }

private:
    const char *connect();
    bool find_port();
    bool find_gid();
    void find_partition(int count);
    ibv_qp *create_qp() const;
    bool connect(ibv_qp *qp, const ibv_qp *peer) const;
    void end_queue_pairs();
    std::optional<text> post(std::span<const transfer> all) const;

    ibv_pd *const pd_;
    const connection_functions &verbs_;
    bool atomics_ = false;
    // For all runs together: a NIC may answer each just in time.
    std::chrono::steady_clock::duration left_ = std::chrono::seconds(5);
    bool silent_                              = false;
    uint8_t port_                             = 0;
    ibv_mtu mtu_                              = IBV_MTU_256;
    uint16_t key_                             = 0; // index of the partition key
    int gids_                                 = 0; // size of the port's table
    std::bitset<UINT8_MAX + 1> tried_{};           // already tried ones
    ibv_ah_attr self_{};
    ibv_cq *cq_  = nullptr;
    ibv_qp *qp_  = nullptr;
    ibv_qp *far_ = nullptr;
    const char *const problem_; // the last member: connect() sets the others
};

} // namespace ucx_ib_dmabuf
