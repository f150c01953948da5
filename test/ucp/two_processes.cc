// SPDX-License-Identifier: BSD-3-Clause
#include "two_processes.h"
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

enum class order : uint8_t { allocate, write, read, copied, release, end };

struct allocation {
    memory kind;
    size_t length; // of all of it
    size_t around; // what is not mapped at either end
};

CUdeviceptr as_pointer(const uint8_t *at)
{
    return reinterpret_cast<CUdeviceptr>(at);
}

// What the other process is working on.
class target {
public:
    target(ucp_worker &worker, const allocation &wanted)
        : context_(worker.context()), buffer_(wanted.length, wanted.kind)
    {
        ucp_mem_map_params_t params = {};

        params.field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = buffer_.at(wanted.around);
        params.length  = wanted.length - 2 * wanted.around;
        check(ucp_mem_map(context_, &params, &memh_), "ucp_mem_map");
    }
    ~target() { ucp_mem_unmap(context_, memh_); }
    target(const target &)            = delete;
    target &operator=(const target &) = delete;

    const gpu::buffer &all() const { return buffer_; }

    std::vector<uint8_t> key() const
    {
        void *packed  = nullptr;
        size_t length = 0;

        check(ucp_rkey_pack(context_, memh_, &packed, &length),
              "ucp_rkey_pack");
        const auto *bytes = static_cast<uint8_t *>(packed);
        std::vector<uint8_t> result(bytes, bytes + length);
        ucp_rkey_buffer_release(packed);
        return result;
    }

private:
    ucp_context_h context_;
    gpu::buffer buffer_;
    ucp_mem_h memh_ = nullptr;
};

// False at the end.
bool do_order(channel &orders, ucp_worker &worker, std::optional<target> &on)
{
    order what{};
    allocation wanted{};

    orders.receive(&what, sizeof(what));
    switch (what) {
    case order::allocate:
        orders.receive(&wanted, sizeof(wanted));
        on.emplace(worker, wanted);
        {
            const uint64_t address = on->all().address();
            orders.send(&address, sizeof(address));
        }
        orders.send(on->key());
        return true;
    case order::write:
        write_memory(on->all().kind(), on->all().at(), orders.receive());
        break;
    case order::read:
        orders.send(
            read_memory(on->all().kind(), on->all().at(), on->all().size()));
        return true;
    case order::copied: {
        const uint64_t copied = gpu::copied_bytes();
        orders.send(&copied, sizeof(copied));
        return true;
    }
    case order::release:
        on.reset();
        break;
    case order::end:
        return false;
    }
    orders.send(&what, sizeof(what)); // done
    return true;
}

void give_order(channel &to, order what)
{
    to.send(&what, sizeof(what));
}

} // namespace

void write_memory(memory kind, uint8_t *at, std::span<const uint8_t> bytes)
{
    if (gpu::is_device(kind)) {
        GPU_CALL(cuMemcpyHtoD, as_pointer(at), bytes.data(), bytes.size());
    } else {
        std::copy(bytes.begin(), bytes.end(), at);
    }
}

std::vector<uint8_t> read_memory(memory kind, const uint8_t *at, size_t length)
{
    std::vector<uint8_t> bytes(length);

    if (gpu::is_device(kind)) {
        GPU_CALL(cuMemcpyDtoH, bytes.data(), as_pointer(at), length);
    } else {
        std::copy(at, at + length, bytes.begin());
    }
    return bytes;
}

channel::~channel()
{
    close(fd_);
}

bool channel::is_ready() const
{
    pollfd one = {fd_, POLLIN, 0};
    return poll(&one, 1, 0) > 0;
}

void channel::send(const void *bytes, size_t length)
{
    const auto *from = static_cast<const uint8_t *>(bytes);

    for (ssize_t done; length > 0; from += done, length -= size_t(done)) {
        done = ::send(fd_, from, length, MSG_NOSIGNAL);
        if (done < 0) {
            throw std::system_error(errno, std::generic_category(),
                                    "to the other process");
        }
    }
}

void channel::receive(void *bytes, size_t length)
{
    auto *to = static_cast<uint8_t *>(bytes);

    for (ssize_t done; length > 0; to += done, length -= size_t(done)) {
        done = ::read(fd_, to, length);
        if (done <= 0) {
            throw std::runtime_error("the other process is gone");
        }
    }
}

void channel::send(const std::vector<uint8_t> &bytes)
{
    const size_t length = bytes.size();

    send(&length, sizeof(length));
    send(bytes.data(), length);
}

std::vector<uint8_t> channel::receive()
{
    size_t length = 0;

    receive(&length, sizeof(length));
    std::vector<uint8_t> bytes(length);
    receive(bytes.data(), length);
    return bytes;
}

ucp_worker::ucp_worker()
{
    ucp_params_t params        = {};
    ucp_worker_params_t single = {};
    ucp_config_t *config       = nullptr;

    gpu::use(); // before UCX looks which memory can be registered
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features   = UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64;
    check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    const auto status = ucp_init_version(1, 16, &params, config, &context_);
    ucp_config_release(config);
    check(status, "ucp_init");
    check(ucp_worker_create(context_, &single, &worker_), "ucp_worker_create");
}

ucp_worker::~ucp_worker()
{
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
}

std::vector<uint8_t> ucp_worker::address() const
{
    ucp_address_t *address = nullptr;
    size_t length          = 0;

    check(ucp_worker_get_address(worker_, &address, &length),
          "ucp_worker_get_address");
    const auto *bytes = reinterpret_cast<uint8_t *>(address);
    std::vector<uint8_t> result(bytes, bytes + length);
    ucp_worker_release_address(worker_, address);
    return result;
}

namespace {

void obey(int fd)
{
    channel orders(fd);
    ucp_worker worker;
    std::optional<target> on;
    bool more = true;

    orders.send(worker.address());
    while (more) {
        while (!orders.is_ready()) {
            ucp_worker_progress(worker.get());
        }
        more = do_order(orders, worker, on);
    }
}

} // namespace

pid_t fork_other(int *orders)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        throw std::system_error(errno, std::generic_category(), "socketpair");
    }
    const pid_t other = fork();
    close(ends[other == 0 ? 0 : 1]);
    if (other == -1) {
        throw std::system_error(errno, std::generic_category(), "fork");
    }
    if (other == 0) {
        obey(ends[1]);
        exit(0);
    }
    *orders = ends[0];
    return other;
}

initiator::initiator(channel &other, bool handles_errors)
    : other_(other), handles_errors_(handles_errors), address_(other.receive())
{
    connect();
}

void initiator::connect()
{
    ucp_ep_params_t params = {};

    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = reinterpret_cast<const ucp_address_t *>(address_.data());
    if (handles_errors_) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                             UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_mode       = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = [](void *, ucp_ep_h, ucs_status_t) {};
    }
    check(ucp_ep_create(worker_.get(), &params, &ep_), "ucp_ep_create");
}

void initiator::connect_anew()
{
    ucp_request_param_t params = {};

    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags        = UCP_EP_CLOSE_FLAG_FORCE;
    try {
        wait(ucp_ep_close_nbx(ep_, &params), "ucp_ep_close_nbx");
    } catch (const failure &) { // the one that it had
    }
    connect();
}

initiator::~initiator()
{
    try {
        const ucp_request_param_t params = {};
        wait(ucp_ep_close_nbx(ep_, &params), "ucp_ep_close_nbx");
        give_order(other_, order::end);
    } catch (const std::exception &failure) {
        fprintf(stderr, "the end: %s\n", failure.what());
    }
}

void initiator::wait(ucs_status_ptr_t request, const char *what)
{
    if (!UCS_PTR_IS_PTR(request)) {
        check(UCS_PTR_STATUS(request), what);
        return;
    }
    ucs_status_t status;
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
        // It says nothing by itself.
        if ((ucp_worker_progress(worker_.get()) == 0) && other_.is_ready()) {
            throw std::runtime_error(std::string(what) +
                                     ": the other process is gone");
        }
    }
    ucp_request_free(request);
    check(status, what);
}

void initiator::flush_ep()
{
    const ucp_request_param_t params = {};
    wait(ucp_ep_flush_nbx(ep_, &params), "ucp_ep_flush_nbx");
}

void initiator::flush_worker()
{
    const ucp_request_param_t params = {};
    wait(ucp_worker_flush_nbx(worker_.get(), &params), "ucp_worker_flush_nbx");
}

uint64_t initiator::copied()
{
    uint64_t others = 0;

    give_order(other_, order::copied);
    other_.receive(&others, sizeof(others));
    return gpu::copied_bytes() + others;
}

remote_memory::remote_memory(initiator &by, std::mt19937_64 &random,
                             memory kind, size_t length, size_t around)
    : by_(by), around_(around), expected_(length + 2 * around)
{
    const allocation wanted = {kind, expected_.size(), around};
    order done{};

    give_order(by.other(), order::allocate);
    by.other().send(&wanted, sizeof(wanted));
    by.other().receive(&address_, sizeof(address_));
    address_ += around;
    const auto key = by.other().receive();
    check(ucp_ep_rkey_unpack(by.ep(), key.data(), &key_), "ucp_ep_rkey_unpack");
    std::generate(expected_.begin(), expected_.end(),
                  [&] { return static_cast<uint8_t>(random()); });
    give_order(by.other(), order::write);
    by.other().send(expected_);
    by.other().receive(&done, sizeof(done));
}

remote_memory::~remote_memory()
{
    ucp_rkey_destroy(key_);
    try {
        order done{};
        give_order(by_.other(), order::release);
        by_.other().receive(&done, sizeof(done));
    } catch (const std::exception &) { // the case has failed by then
    }
}

void remote_memory::compare(const char *after)
{
    give_order(by_.other(), order::read);
    const std::string wrong = difference(by_.other().receive(), expected_);
    if (!wrong.empty()) {
        throw std::runtime_error(std::string(after) + ": " + wrong);
    }
}

std::string difference(std::span<const uint8_t> found,
                       std::span<const uint8_t> expected)
{
    const auto first =
        std::mismatch(found.begin(), found.end(), expected.begin()).first;

    return (first == found.end())
               ? ""
               : "byte " + std::to_string(first - found.begin()) + " of " +
                     std::to_string(found.size()) + " is wrong";
}

} // namespace ucx_ib_dmabuf::test
