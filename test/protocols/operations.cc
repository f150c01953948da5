// SPDX-License-Identifier: BSD-3-Clause
//
// One operation of each kind of UCP's, between two processes with a GPU each.
// With UCX_PROTO_INFO=y UCX prints which protocol it chooses for each size, at
// the first operation of a kind. The bytes are compared, and those that the
// GPUs copied for UCX are printed. usage: operations device|host
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/peers.h>
#include <unistd.h>

using namespace ucx_ib_dmabuf::test;

namespace {

constexpr size_t length           = 1 << 20;
constexpr unsigned active_message = 1;

// One of the processes. The target receives messages, and lets the initiator
// put and get. Both run the same steps.
class side {
public:
    side(memory kind, bool is_target, int socket)
        : kind_(kind), is_target_(is_target), socket_(socket),
          worker_(UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA),
          memory_(on_gpu(is_target ? 1 : 0, kind), length)
    {
        if (is_target) {
            offer();
        } else {
            connect();
        }
    }
    ~side()
    {
        if (key_ != nullptr) {
            ucp_rkey_destroy(key_);
        }
        if (memh_ != nullptr) {
            ucp_mem_unmap(worker_.context(), memh_);
        }
    }
    side(const side &)            = delete;
    side &operator=(const side &) = delete;

    // As MPI_Send(), whose buffer is free when the send is complete at this
    // side, or as MPI_Isend().
    void tag(bool blocking)
    {
        const ucp_request_param_t none{};
        ucp_request_param_t how{};
        how.op_attr_mask = blocking ? UCP_OP_ATTR_FLAG_FAST_CMPL : 0;
        step(blocking ? "blocking send" : "send", false, [&] {
            wait(is_target_
                     ? ucp_tag_recv_nbx(worker_.get(), memory_.at(), length, 1,
                                        ~0ul, &none)
                     : ucp_tag_send_nbx(ep_, memory_.at(), length, 1, &how));
        });
    }
    void am()
    {
        const ucp_request_param_t none{};
        step("active message", false, [&] {
            if (is_target_) {
                progress_until([this] { return has_arrived_; });
                wait(arrived_);
            } else {
                wait(ucp_am_send_nbx(ep_, active_message, nullptr, 0,
                                     memory_.at(), length, &none));
            }
        });
    }
    template <typename Operation>
    void rma(const char *name, bool gets, Operation *run)
    {
        const ucp_request_param_t none{};
        step(name, gets, [&] {
            if (!is_target_) {
                wait(run(ep_, memory_.at(), length, remote_, key_, &none));
                wait(ucp_ep_flush_nbx(ep_, &none));
            }
        });
    }
    void close()
    {
        const ucp_request_param_t none{};
        if (!is_target_) {
            wait(ucp_ep_close_nbx(ep_, &none));
        }
        meet();
    }

private:
    static memory on_gpu(int ordinal, memory kind)
    {
        gpu::use(ordinal);
        return kind;
    }
    void offer()
    {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                             UCP_AM_HANDLER_PARAM_FIELD_CB |
                             UCP_AM_HANDLER_PARAM_FIELD_ARG;
        handler.id  = active_message;
        handler.cb  = receive_message;
        handler.arg = this;
        check(ucp_worker_set_am_recv_handler(worker_.get(), &handler),
              "ucp_worker_set_am_recv_handler");

        ucp_mem_map_params_t range{};
        range.field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        range.address          = memory_.at();
        range.length           = length;
        ucp_address_t *address = nullptr;
        void *key              = nullptr;
        size_t size            = 0;
        check(ucp_mem_map(worker_.context(), &range, &memh_), "ucp_mem_map");
        check(ucp_worker_get_address(worker_.get(), &address, &size),
              "ucp_worker_get_address");
        give(address, size);
        ucp_worker_release_address(worker_.get(), address);
        check(ucp_rkey_pack(worker_.context(), memh_, &key, &size),
              "ucp_rkey_pack");
        give(key, size);
        ucp_rkey_buffer_release(key);
        const auto at = reinterpret_cast<uint64_t>(memory_.at());
        give(&at, sizeof(at));
    }
    void connect()
    {
        const std::vector<char> address = taken(), key = taken();
        const std::vector<char> at = taken();
        ucp_ep_params_t params{};
        params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        params.address =
            reinterpret_cast<const ucp_address_t *>(address.data());
        check(ucp_ep_create(worker_.get(), &params, &ep_), "ucp_ep_create");
        check(ucp_ep_rkey_unpack(ep_, key.data(), &key_), "ucp_ep_rkey_unpack");
        memcpy(&remote_, at.data(), sizeof(remote_));
    }

    // Fills one side's memory, and expects its bytes in both after the act.
    void step(const char *name, bool from_target,
              const std::function<void()> &act)
    {
        const std::vector<uint8_t> sent(length, ++value_), none(length, 0);
        write_memory(kind_, memory_.at(),
                     is_target_ == from_target ? sent : none);
        meet();
        const uint64_t before = gpu::copied_bytes();
        act();
        meet();
        uint64_t copied = gpu::copied_bytes() - before;
        if (read_memory(kind_, memory_.at(), length) != sent) {
            throw std::runtime_error(std::string(name) + ": bytes differ");
        }
        if (is_target_) {
            give(&copied, sizeof(copied));
        } else {
            uint64_t more = 0;
            memcpy(&more, taken().data(), sizeof(more));
            printf("%s: %lu bytes copied\n", name,
                   static_cast<unsigned long>(copied + more));
        }
    }

    static ucs_status_t receive_message(void *self, const void *, size_t,
                                        void *data, size_t,
                                        const ucp_am_recv_param_t *)
    {
        auto *const mine = static_cast<side *>(self);
        const ucp_request_param_t none{};
        mine->arrived_ = ucp_am_recv_data_nbx(
            mine->worker_.get(), data, mine->memory_.at(), length, &none);
        mine->has_arrived_ = true;
        return UCS_INPROGRESS;
    }

    void progress_until(const std::function<bool()> &done)
    {
        while (!done()) {
            ucp_worker_progress(worker_.get());
        }
    }
    void wait(ucs_status_ptr_t request)
    {
        if (UCS_PTR_IS_PTR(request)) {
            progress_until([=] {
                return ucp_request_check_status(request) != UCS_INPROGRESS;
            });
            check(ucp_request_check_status(request), "an operation");
            ucp_request_free(request);
        } else {
            check(UCS_PTR_STATUS(request), "an operation");
        }
    }
    // Returns when the other process is there, too.
    void meet()
    {
        give("", 1);
        progress_until([this] {
            char byte;
            return recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
        });
        taken();
    }

    void give(const void *data, size_t size) const
    {
        expect(send(socket_, data, size, MSG_NOSIGNAL) ==
                   static_cast<ssize_t>(size),
               "the other process is gone");
    }
    // Throws if the other process has ended.
    std::vector<char> taken() const
    {
        std::vector<char> data(1 << 16);
        const ssize_t size = recv(socket_, data.data(), data.size(), 0);
        expect(size > 0, "the other process is gone");
        data.resize(static_cast<size_t>(size));
        return data;
    }

    const memory kind_;
    const bool is_target_;
    const int socket_;
    const ucx_ib_dmabuf::test::ucp_worker worker_;
    const buffer memory_;
    uint8_t value_            = 0;
    bool has_arrived_         = false;
    ucs_status_ptr_t arrived_ = nullptr;
    ucp_mem_h memh_           = nullptr; // of the target
    ucp_ep_h ep_              = nullptr; // of the initiator
    ucp_rkey_h key_           = nullptr;
    uint64_t remote_          = 0;
};

// Returns whether all went well.
bool run(memory kind, bool is_target, int socket)
try {
    side one(kind, is_target, socket);
    one.tag(true);
    one.tag(false);
    one.am();
    one.rma("put", false, ucp_put_nbx);
    one.rma("get", true, ucp_get_nbx);
    one.close();
    return true;
} catch (const std::exception &failure) {
    fprintf(stderr, "operations: %s\n", failure.what());
    return false;
}

} // namespace

int main(int argc, char **argv)
{
    const bool host   = (argc == 2) && (strcmp(argv[1], "host") == 0);
    const memory kind = host ? memory::host : memory::device;
    int sockets[2], status = 0;

    // Packets keep their borders.
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) != 0) {
        return 1;
    }
    const pid_t target = fork();
    close(sockets[target == 0 ? 0 : 1]);
    if (target == 0) {
        // The initiator's choices are those to be read; both print to stdout.
        if (freopen("/dev/null", "w", stdout) == nullptr) {
            return 1;
        }
        return run(kind, true, sockets[1]) ? 0 : 1;
    }
    const bool good = run(kind, false, sockets[0]);
    close(sockets[0]);
    waitpid(target, &status, 0);
    if (!good || status != 0) {
        return 1;
    }
    puts("every byte is right");
    return 0;
}
