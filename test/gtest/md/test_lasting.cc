// SPDX-License-Identifier: BSD-3-Clause
//
// UCX may keep a handle for longer than an operation, by settings of which
// there are several sources. If such memory cannot be registered, a message
// arrives as it was sent or fails; it never carries what was there before. In
// the lab, through UCP, with every registration failing.
#include <common/gpu.h>
#include <cstring>
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

namespace {

constexpr size_t length = 1 << 20;

void check(ucs_status_t status, const char *call)
{
    if (status != UCS_OK) {
        throw std::runtime_error(std::string(call) + ": " +
                                 ucs_status_string(status));
    }
}

struct setting {
    const char *name;
    const char *value;
};

// A worker that sends to itself, by the NIC.
class loop {
public:
    explicit loop(const std::vector<setting> &settings)
    {
        ucp_config_t *config = nullptr;
        check(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
        for (const setting &one : settings) {
            check(ucp_config_modify(config, one.name, one.value), one.name);
        }
        ucp_params_t params{};
        params.field_mask   = UCP_PARAM_FIELD_FEATURES;
        params.features     = UCP_FEATURE_TAG;
        ucs_status_t status = ucp_init(&params, config, &context_);
        ucp_config_release(config);
        check(status, "ucp_init");

        ucp_worker_params_t worker_params{};
        check(ucp_worker_create(context_, &worker_params, &worker_),
              "ucp_worker_create");
        ucp_address_t *address = nullptr;
        size_t size            = 0;
        check(ucp_worker_get_address(worker_, &address, &size), "address");
        ucp_ep_params_t ep_params{};
        ep_params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        ep_params.address    = address;
        status               = ucp_ep_create(worker_, &ep_params, &ep_);
        ucp_worker_release_address(worker_, address);
        check(status, "ucp_ep_create");
    }
    ~loop()
    {
        ucp_request_param_t param{};
        finish(ucp_ep_close_nbx(ep_, &param));
        ucp_worker_destroy(worker_);
        ucp_cleanup(context_);
    }
    loop(const loop &)            = delete;
    loop &operator=(const loop &) = delete;

    // The send's status, if that is an error, or the receive's.
    ucs_status_t exchange(const void *from, void *to)
    {
        ucp_request_param_t param{};
        void *receive =
            ucp_tag_recv_nbx(worker_, to, length, 1, ~ucp_tag_t{0}, &param);
        ucs_status_t sent =
            finish(ucp_tag_send_nbx(ep_, from, length, 1, &param));

        if ((sent != UCS_OK) && UCS_PTR_IS_PTR(receive)) {
            ucp_request_cancel(worker_, receive);
        }
        const ucs_status_t received = finish(receive);
        return (sent != UCS_OK) ? sent : received;
    }

private:
    ucs_status_t finish(void *request)
    {
        if (!UCS_PTR_IS_PTR(request)) {
            return UCS_PTR_STATUS(request);
        }
        ucs_status_t status;
        do {
            ucp_worker_progress(worker_);
            status = ucp_request_check_status(request);
        } while (status == UCS_INPROGRESS);
        ucp_request_free(request);
        return status;
    }

    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_   = nullptr;
    ucp_ep_h ep_           = nullptr;
};

class test_lasting : public ::testing::Test {
protected:
    void SetUp() override { gpu::use(); }

    // How many of the messages, each with bytes of its own, arrived: between
    // two GPU buffers, and between GPU and host memory.
    static int exchange_all(const std::vector<setting> &settings)
    {
        gpu::buffer from(length), gpu_memory(length);
        std::string host_memory(length, '?');
        loop with(settings);
        int arrived = 0;

        for (char value = 'a'; value < 'e'; ++value) {
            GPU_CALL(cuMemsetD8, from.address(),
                     static_cast<unsigned char>(value), length);
            GPU_CALL(cuMemsetD8, gpu_memory.address(), 0, length);
            if (report(with.exchange(from.pointer(), gpu_memory.pointer()))) {
                arrived += expect(contents(gpu_memory), value);
            }
            if (report(with.exchange(from.pointer(), host_memory.data()))) {
                arrived += expect(host_memory, value);
            }
            GPU_CALL(cuMemsetD8, gpu_memory.address(), 0, length);
            host_memory.assign(length, value);
            if (report(
                    with.exchange(host_memory.data(), gpu_memory.pointer()))) {
                arrived += expect(contents(gpu_memory), value);
            }
        }
        return arrived;
    }

private:
    static std::string contents(const gpu::buffer &of)
    {
        std::string bytes(length, '?');
        GPU_CALL(cuMemcpyDtoH, bytes.data(), of.address(), length);
        return bytes;
    }
    static bool report(ucs_status_t status)
    {
        if (status != UCS_OK) {
            std::printf("a message failed: %s\n", ucs_status_string(status));
        }
        return status == UCS_OK;
    }
    static int expect(const std::string &bytes, char value)
    {
        const size_t wrong = bytes.find_first_not_of(value);

        if (wrong == std::string::npos) {
            return 1;
        }
        ADD_FAILURE() << "message " << value << " has '" << bytes[wrong]
                      << "' at " << wrong;
        return 0;
    }
};

TEST_F(test_lasting, no_settings)
{
    EXPECT_EQ(12, exchange_all({}));
}

// As ucx.conf has it (lasting.lab), or the environment.
TEST_F(test_lasting, settings_from_outside)
{
    exchange_all({});
}

TEST_F(test_lasting, new_protocols)
{
    exchange_all({{"PROTO_ENABLE", "y"}});
}

TEST_F(test_lasting, new_protocols_eager)
{
    exchange_all({{"PROTO_ENABLE", "y"}, {"RNDV_THRESH", "inf"}});
}

TEST_F(test_lasting, gpu_fragments_put)
{
    exchange_all({{"RNDV_FRAG_MEM_TYPE", "cuda"}, {"RNDV_SCHEME", "put_ppln"}});
}

TEST_F(test_lasting, gpu_fragments_get)
{
    exchange_all({{"RNDV_FRAG_MEM_TYPE", "cuda"}, {"RNDV_SCHEME", "get_ppln"}});
}

} // namespace
