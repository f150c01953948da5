// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi/buffer.h>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <ucp/api/ucp.h>
#include <vector>

// A UCP context operates on memory of another in the same process, over the
// NIC. Not thread-safe. Every failure throws an exception.
namespace ucx_ib_dmabuf::test {

// An error of UCX.
class failure : public std::runtime_error {
public:
    failure(ucs_status_t status, const char *what)
        : std::runtime_error(std::string(what) + ": " +
                             ucs_status_string(status)),
          status_(status)
    {
    }
    ucs_status_t status() const { return status_; }

private:
    ucs_status_t status_;
};

inline void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        throw failure(status, what);
    }
}

// A context with a worker.
class ucp_worker {
public:
    // For these features of UCP (ucp_params_t).
    explicit ucp_worker(uint64_t features);
    ~ucp_worker();
    ucp_worker(const ucp_worker &)            = delete;
    ucp_worker &operator=(const ucp_worker &) = delete;

    ucp_context_h context() const { return context_; }
    ucp_worker_h get() const { return worker_; }

private:
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_   = nullptr;
};

// A worker with an endpoint to the worker of the target. Both use the first
// GPU.
class initiator {
public:
    // With `handles_errors` UCX reports the endpoint's failure and goes on. The
    // default features are puts, gets and atomics.
    explicit initiator(bool handles_errors = false,
                       uint64_t features = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 |
                                           UCP_FEATURE_AMO64);
    ~initiator();
    initiator(const initiator &)            = delete;
    initiator &operator=(const initiator &) = delete;

    ucp_ep_h ep() const { return ep_; }
    ucp_worker_h worker() const { return worker_.get(); }
    ucp_context_h target() const { return target_.context(); }
    ucp_worker_h target_worker() const { return target_.get(); }

    // Replaces a failed endpoint by a new one.
    void connect_anew();

    // Waits until the request completes; also checks a status in its place.
    void wait(ucs_status_ptr_t request, const char *what);
    void flush_ep();
    void flush_worker();

private:
    void connect();

    const bool handles_errors_;
    ucp_worker target_, worker_;
    ucp_ep_h ep_ = nullptr;
};

// Memory of the target that UCP has mapped, and its key.
class mapped_memory {
public:
    mapped_memory(const initiator &by, void *address, size_t length);
    ~mapped_memory();
    mapped_memory(const mapped_memory &)            = delete;
    mapped_memory &operator=(const mapped_memory &) = delete;

    ucp_rkey_h key() const { return key_; }

private:
    const ucp_context_h context_;
    ucp_mem_h memh_ = nullptr;
    ucp_rkey_h key_ = nullptr;
};

// Memory of the target with random bytes, of which UCP has mapped a part, and
// the bytes expected in all of it.
class remote_memory {
public:
    // `around` bytes lie before and behind the mapped part.
    remote_memory(const initiator &by, std::mt19937_64 &random, memory kind,
                  size_t length, size_t around);
    // Offsets are relative to the mapped part.
    uint64_t address(size_t offset) const
    {
        return buffer_.address() + around_ + offset;
    }
    uint8_t *expected(size_t offset) { return &expected_[around_ + offset]; }
    ucp_rkey_h key() const { return mapped_.key(); }
    size_t length() const { return expected_.size() - 2 * around_; }

    // Throws if a byte of the memory differs from the expected one.
    void compare(const char *after) const;

private:
    const size_t around_;
    const gpu::buffer buffer_;
    std::vector<uint8_t> expected_;
    const mapped_memory mapped_;
};

// Describes the first byte that differs; returns "" if none does.
std::string difference(std::span<const uint8_t> found,
                       std::span<const uint8_t> expected);

} // namespace ucx_ib_dmabuf::test
