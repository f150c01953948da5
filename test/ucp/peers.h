// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <mpi/buffer.h>
#include <optional>
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
inline void expect(bool good, const std::string &otherwise)
{
    if (!good) {
        throw std::runtime_error(otherwise);
    }
}

// A context for puts, gets and atomics, with a worker.
class ucp_worker {
public:
    ucp_worker();
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
    // With `handles_errors` UCX reports the endpoint's failure and goes on.
    explicit initiator(bool handles_errors = false);
    ~initiator();
    initiator(const initiator &)            = delete;
    initiator &operator=(const initiator &) = delete;

    ucp_ep_h ep() const { return ep_; }
    ucp_worker_h worker() const { return worker_.get(); }
    ucp_context_h target() const { return target_.context(); }

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

// Memory with random bytes, and the bytes expected in it.
class known_memory {
public:
    known_memory(std::mt19937_64 &random, memory kind, size_t length);

    uint8_t *at(size_t offset = 0) const { return buffer_.at(offset); }
    uint8_t *expected(size_t offset = 0) { return &expected_[offset]; }
    size_t length() const { return expected_.size(); }

    // Makes all bytes the expected ones.
    void write();
    // Throws if a byte differs from the expected one.
    void compare(const std::string &after) const;

private:
    const gpu::buffer buffer_;
    std::vector<uint8_t> expected_;
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

// Known memory of the target, of which UCP has mapped a part. Offsets are
// relative to that.
class remote_memory : private known_memory {
public:
    // `around` bytes lie before and behind the mapped part.
    remote_memory(const initiator &by, std::mt19937_64 &random, memory kind,
                  size_t length, size_t around);
    uint64_t address(size_t offset = 0) const
    {
        return reinterpret_cast<uint64_t>(at(around_ + offset));
    }
    uint8_t *expected(size_t offset = 0)
    {
        return known_memory::expected(around_ + offset);
    }
    ucp_rkey_h key() const { return mapped_.key(); }
    size_t length() const { return known_memory::length() - 2 * around_; }
    using known_memory::compare;

private:
    const size_t around_;
    const mapped_memory mapped_;
};

// Starts to move bytes between memory of the initiator and of the target.
using operation = ucs_status_ptr_t(const initiator &by, uint8_t *mine,
                                   size_t length, uint64_t theirs,
                                   ucp_rkey_h key);
operation put, get;

// What the cases of a run share.
struct job {
    std::mt19937_64 random;
    bool may_copy = false; // large puts and gets may be copied

    initiator &by() { return by_ ? *by_ : by_.emplace(); }

private:
    std::optional<initiator> by_;
};

struct test_case {
    const char *group;
    const char *name;
    void (*run)(job &, memory, memory);
    memory first  = memory::device;
    memory second = memory::device;
};

std::span<const test_case> one_sided_cases();
std::span<const test_case> revoked_cases();

} // namespace ucx_ib_dmabuf::test
