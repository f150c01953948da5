// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_UCP_TWO_PROCESSES_H_
#define UCX_IB_DMABUF_TEST_UCP_TWO_PROCESSES_H_

#include <common/gpu.h>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <ucp/api/ucp.h>
#include <vector>

// One process does operations of UCP's on the memory of another, which obeys
// it: what UCX does itself is all that passes by UCX. Not thread-safe; whatever
// fails is an exception.
namespace ucx_ib_dmabuf::test {

using gpu::memory;

// Of UCX's.
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

// Copies of the program's own.
void write_memory(memory kind, uint8_t *at, std::span<const uint8_t> bytes);
std::vector<uint8_t> read_memory(memory kind, const uint8_t *at, size_t length);

// Bytes to and from the other process beside UCX.
class channel {
public:
    explicit channel(int fd) : fd_(fd) {}
    ~channel();
    channel(const channel &)            = delete;
    channel &operator=(const channel &) = delete;

    // Whether receive() has something, or the other end is gone.
    bool is_ready() const;

    void send(const void *bytes, size_t length);
    void receive(void *bytes, size_t length);
    // With their number.
    void send(const std::vector<uint8_t> &bytes);
    std::vector<uint8_t> receive();

private:
    int fd_;
};

// A context with a worker, for puts, gets and atomics.
class ucp_worker {
public:
    ucp_worker();
    ~ucp_worker();
    ucp_worker(const ucp_worker &)            = delete;
    ucp_worker &operator=(const ucp_worker &) = delete;

    std::vector<uint8_t> address() const;
    ucp_context_h context() const { return context_; }
    ucp_worker_h get() const { return worker_; }

private:
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_   = nullptr;
};

// Makes the process with the memory, which does what the other end of *orders
// tells it until it is told to end. Both use the first GPU, from their first
// worker on: others may be made before that.
pid_t fork_other(int *orders);

class initiator {
public:
    // `handles_errors`: who does not ends with an endpoint's failure.
    explicit initiator(channel &other, bool handles_errors = false);
    ~initiator();
    initiator(const initiator &)            = delete;
    initiator &operator=(const initiator &) = delete;

    ucp_ep_h ep() const { return ep_; }
    ucp_worker_h worker() const { return worker_.get(); }
    channel &other() { return other_; }

    // A new endpoint in the place of one that has failed.
    void connect_anew();

    // Until the request is done; also if it is the status of one that never
    // was. Throws if the other process is gone meanwhile.
    void wait(ucs_status_ptr_t request, const char *what);
    void flush_ep();
    void flush_worker();

    // Bytes that the GPU has copied for both processes so far.
    uint64_t copied();

private:
    void connect();

    channel &other_;
    const bool handles_errors_;
    ucp_worker worker_;
    const std::vector<uint8_t> address_; // the other worker's
    ucp_ep_h ep_ = nullptr;
};

// Memory of the other process, of which UCP has mapped a part, and what has to
// be in all of it. It begins at random.
class remote_memory {
public:
    // `around` bytes lie before and behind what is mapped.
    remote_memory(initiator &by, std::mt19937_64 &random, memory kind,
                  size_t length, size_t around);
    ~remote_memory();
    remote_memory(const remote_memory &)            = delete;
    remote_memory &operator=(const remote_memory &) = delete;

    // Of what is mapped.
    uint64_t address(size_t offset) const { return address_ + offset; }
    uint8_t *expected(size_t offset) { return &expected_[around_ + offset]; }
    ucp_rkey_h key() const { return key_; }
    size_t length() const { return expected_.size() - 2 * around_; }

    // Throws if a byte of the memory is not what is expected.
    void compare(const char *after);

private:
    initiator &by_;
    const size_t around_;
    std::vector<uint8_t> expected_;
    uint64_t address_ = 0;
    ucp_rkey_h key_   = nullptr;
};

// The first byte that differs, for people; "" if none does.
std::string difference(std::span<const uint8_t> found,
                       std::span<const uint8_t> expected);

} // namespace ucx_ib_dmabuf::test

#endif
