// SPDX-License-Identifier: BSD-3-Clause
//
// The estimates of an interface's speed that UCP asks for.
#include "fake_domain.h"
#include <cstddef>
#include <dlfcn.h>

namespace {

using ucx_ib_dmabuf::ucs_memory_type_t;
using ucx_ib_dmabuf::uct_ep_operation_t;
using ucx_ib_dmabuf::uct_iface_h;
using ucx_ib_dmabuf::uct_iface_params_t;
using ucx_ib_dmabuf::uct_perf_attr_t;

constexpr double fast = 48e9; // bytes a second, of NDR
ucs_status_t answer;

ucs_status_t estimate_fast(uct_iface_h, uct_perf_attr_t *attr)
{
    attr->bandwidth      = {0, fast};
    attr->path_bandwidth = {0, fast};
    return answer;
}

class test_estimates : public domain_test {
protected:
    // From 1.22 on the estimate is the second of the operations.
    static constexpr size_t max = 32;

    test_estimates()
    {
        answer = UCS_OK;
        index_ = (dlsym(RTLD_DEFAULT, "uct_iface_query_v2") != nullptr) ? 1 : 0;
        ops_[index_]        = reinterpret_cast<void *>(estimate_fast);
        iface_.internal_ops = ops_;
        iface_.md           = md_->get();
        fake_ib::now.iface  = &iface_;
        EXPECT_EQ(UCS_OK, open());
    }

    ucs_status_t open()
    {
        uct_iface_params_t params{};
        uct_iface_h iface = nullptr;

        params.field_mask  = uct_iface_params_t::known_fields;
        params.open_mode   = uct_iface_params_t::mode_device;
        params.err_handler = [](void *, ucx_ib_dmabuf::uct_ep_h, ucs_status_t) {
            return UCS_OK;
        };
        params.mode.device.tl_name = "fake";
        return fake_ib::transport.iface_open(md_->get(), nullptr, &params,
                                             nullptr, &iface);
    }

    // Returns the bandwidth that UCP gets.
    double ask(uct_ep_operation_t operation, ucs_memory_type_t type,
               uint64_t mask = ~uint64_t{0})
    {
        uct_perf_attr_t attr{};

        attr.field_mask        = mask;
        attr.operation         = operation;
        attr.local_memory_type = type;
        EXPECT_EQ(answer,
                  reinterpret_cast<ucx_ib_dmabuf::estimate_perf_function *>(
                      static_cast<void **>(iface_.internal_ops)[index_])(
                      &iface_, &attr));
        EXPECT_EQ(attr.bandwidth.shared, attr.path_bandwidth.shared);
        return attr.bandwidth.shared;
    }

    static inline void *ops_[max]{}; // as a transport's
    size_t index_ = 0;
    ucx_ib_dmabuf::uct_iface_t iface_{};
};

constexpr auto eager = ucx_ib_dmabuf::UCT_EP_OP_AM_ZCOPY;
constexpr auto put   = static_cast<uct_ep_operation_t>(eager + 3);
constexpr auto cuda  = ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA;
constexpr auto host  = ucx_ib_dmabuf::UCS_MEMORY_TYPE_HOST;

TEST_F(test_estimates, eager_messages_of_gpu_memory_are_as_fast_as_the_copy)
{
    EXPECT_LT(ask(eager, cuda), 9e9);
    EXPECT_GT(ask(eager, cuda), 8e9);
}

TEST_F(test_estimates, all_else_is_as_uct_ib_says)
{
    using attr = uct_perf_attr_t;

    EXPECT_EQ(fast, ask(eager, host));
    EXPECT_EQ(fast, ask(put, cuda));
    for (const uint64_t missing :
         {attr::field_operation, attr::field_local_memory_type,
          attr::field_bandwidth}) {
        EXPECT_EQ(fast, ask(eager, cuda, ~missing));
    }
    answer = UCS_ERR_UNSUPPORTED;
    EXPECT_EQ(fast, ask(eager, cuda));
}

TEST_F(test_estimates, an_interface_with_other_operations_keeps_them)
{
    void *others[max]{};

    others[index_]      = ops_[index_];
    iface_.internal_ops = others;
    EXPECT_EQ(UCS_OK, open());
    EXPECT_EQ(others, iface_.internal_ops);
    EXPECT_EQ(fast, ask(eager, cuda));
}

} // namespace
