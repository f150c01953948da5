// SPDX-License-Identifier: BSD-3-Clause
//
// One operation of each kind of UCP's, between two workers of this process.
// With UCX_PROTO_INFO=y UCX prints which protocol it chooses for each size, at
// the first operation of a kind. The bytes are compared. usage: operations
// device|host
#include <cstdio>
#include <cstring>
#include <exception>
#include <ucp/peers.h>

using namespace ucx_ib_dmabuf::test;

namespace {

constexpr size_t length           = 1 << 20;
constexpr unsigned active_message = 1;

class exchange {
public:
    explicit exchange(memory kind)
        : kind_(kind),
          peers_(false, UCP_FEATURE_TAG | UCP_FEATURE_AM | UCP_FEATURE_RMA),
          from_(kind, length), to_(kind, length),
          mapped_(peers_, to_.at(), length)
    {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                             UCP_AM_HANDLER_PARAM_FIELD_CB |
                             UCP_AM_HANDLER_PARAM_FIELD_ARG;
        handler.id  = active_message;
        handler.cb  = receive;
        handler.arg = this;
        check(ucp_worker_set_am_recv_handler(peers_.target_worker(), &handler),
              "ucp_worker_set_am_recv_handler");
    }

    // As MPI_Send(), whose buffer is free when the send is complete at this
    // side, or as MPI_Isend().
    void tag(bool blocking)
    {
        const ucp_request_param_t none{};
        ucp_request_param_t how{};
        how.op_attr_mask = blocking ? UCP_OP_ATTR_FLAG_FAST_CMPL : 0;
        fill(blocking ? 1 : 2);
        auto *const received = ucp_tag_recv_nbx(
            peers_.target_worker(), to_.at(), length, 1, ~0ul, &none);
        peers_.wait(ucp_tag_send_nbx(peers_.ep(), from_.at(), length, 1, &how),
                    "ucp_tag_send_nbx");
        peers_.wait(received, "ucp_tag_recv_nbx");
        compare(blocking ? "a blocking send" : "a send");
    }

    void am()
    {
        const ucp_request_param_t none{};
        fill(3);
        peers_.wait(ucp_am_send_nbx(peers_.ep(), active_message, nullptr, 0,
                                    from_.at(), length, &none),
                    "ucp_am_send_nbx");
        peers_.wait(am_received_, "ucp_am_recv_data_nbx");
        compare("an active message");
    }

    void put()
    {
        const ucp_request_param_t none{};
        fill(4);
        peers_.wait(ucp_put_nbx(peers_.ep(), from_.at(), length, to_.address(),
                                mapped_.key(), &none),
                    "ucp_put_nbx");
        peers_.flush_ep();
        compare("a put");
    }

    void get()
    {
        const ucp_request_param_t none{};
        const std::vector<uint8_t> sent(length, 5);
        write_memory(kind_, to_.at(), sent);
        peers_.wait(ucp_get_nbx(peers_.ep(), from_.at(), length, to_.address(),
                                mapped_.key(), &none),
                    "ucp_get_nbx");
        peers_.flush_ep();
        if (read_memory(kind_, from_.at(), length) != sent) {
            throw std::runtime_error("a get brought other bytes");
        }
    }

private:
    static ucs_status_t receive(void *self, const void *, size_t, void *data,
                                size_t, const ucp_am_recv_param_t *)
    {
        auto *const mine = static_cast<exchange *>(self);
        const ucp_request_param_t none{};
        mine->am_received_ = ucp_am_recv_data_nbx(
            mine->peers_.target_worker(), data, mine->to_.at(), length, &none);
        return UCS_INPROGRESS;
    }

    void fill(uint8_t value)
    {
        const std::vector<uint8_t> bytes(length, value);
        write_memory(kind_, from_.at(), bytes);
    }
    void compare(const char *after) const
    {
        if (read_memory(kind_, from_.at(), length) !=
            read_memory(kind_, to_.at(), length)) {
            throw std::runtime_error(std::string(after) + ": bytes differ");
        }
    }

    const memory kind_;
    initiator peers_;
    const buffer from_, to_;
    const mapped_memory mapped_;
    ucs_status_ptr_t am_received_ = nullptr;
};

} // namespace

int main(int argc, char **argv)
{
    const bool host = (argc == 2) && (strcmp(argv[1], "host") == 0);

    try {
        exchange both(host ? memory::host : memory::device);
        both.tag(true);
        both.tag(false);
        both.am();
        both.put();
        both.get();
    } catch (const std::exception &failure) {
        fprintf(stderr, "operations: %s\n", failure.what());
        return 1;
    }
    puts("every byte is right");
    return 0;
}
