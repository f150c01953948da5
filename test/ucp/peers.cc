// SPDX-License-Identifier: BSD-3-Clause
#include "peers.h"
#include <algorithm>
#include <cstdio>

namespace ucx_ib_dmabuf::test {

ucp_worker::ucp_worker()
{
    ucp_params_t params        = {};
    ucp_worker_params_t single = {};
    ucp_config_t *config       = nullptr;

    gpu::use(); // before UCX checks which memory it can register
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

initiator::initiator(bool handles_errors) : handles_errors_(handles_errors)
{
    connect();
}

void initiator::connect()
{
    ucp_address_t *address = nullptr;
    size_t length          = 0;
    ucp_ep_params_t params = {};

    check(ucp_worker_get_address(target_.get(), &address, &length),
          "ucp_worker_get_address");
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address    = address;
    if (handles_errors_) {
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                             UCP_EP_PARAM_FIELD_ERR_HANDLER;
        params.err_mode       = UCP_ERR_HANDLING_MODE_PEER;
        params.err_handler.cb = [](void *, ucp_ep_h, ucs_status_t) {};
    }
    const auto status = ucp_ep_create(worker_.get(), &params, &ep_);
    ucp_worker_release_address(target_.get(), address);
    check(status, "ucp_ep_create");
}

void initiator::connect_anew()
{
    ucp_request_param_t params = {};

    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags        = UCP_EP_CLOSE_FLAG_FORCE;
    try {
        wait(ucp_ep_close_nbx(ep_, &params), "ucp_ep_close_nbx");
    } catch (const failure &) { // the endpoint's own failure
    }
    connect();
}

initiator::~initiator()
{
    try {
        const ucp_request_param_t params = {};
        wait(ucp_ep_close_nbx(ep_, &params), "ucp_ep_close_nbx");
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
        ucp_worker_progress(worker_.get());
        ucp_worker_progress(target_.get());
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

mapped_memory::mapped_memory(const initiator &by, void *address, size_t length)
    : context_(by.target())
{
    ucp_mem_map_params_t params = {};
    void *packed                = nullptr;
    size_t packed_length        = 0;

    params.field_mask =
        UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = address;
    params.length  = length;
    check(ucp_mem_map(context_, &params, &memh_), "ucp_mem_map");
    check(ucp_rkey_pack(context_, memh_, &packed, &packed_length),
          "ucp_rkey_pack");
    const auto status = ucp_ep_rkey_unpack(by.ep(), packed, &key_);
    ucp_rkey_buffer_release(packed);
    check(status, "ucp_ep_rkey_unpack");
}

mapped_memory::~mapped_memory()
{
    ucp_rkey_destroy(key_);
    ucp_mem_unmap(context_, memh_);
}

known_memory::known_memory(std::mt19937_64 &random, memory kind, size_t length)
    : buffer_(length, kind), expected_(length)
{
    std::generate(expected_.begin(), expected_.end(),
                  [&] { return static_cast<uint8_t>(random()); });
    write();
}

void known_memory::write()
{
    write_memory(buffer_.kind(), buffer_.at(), expected_);
}

void known_memory::compare(const std::string &after) const
{
    const auto found = read_memory(buffer_.kind(), buffer_.at(), length());
    const auto first =
        std::mismatch(found.begin(), found.end(), expected_.begin()).first;

    expect(first == found.end(),
           after + ": byte " + std::to_string(first - found.begin()) + " of " +
               std::to_string(length()) + ", " + name_of(buffer_.kind()) +
               " memory, is wrong");
}

remote_memory::remote_memory(const initiator &by, std::mt19937_64 &random,
                             memory kind, size_t length, size_t around)
    : known_memory(random, kind, length + 2 * around), around_(around),
      mapped_(by, at(around), length)
{
}

ucs_status_ptr_t put(const initiator &by, uint8_t *mine, size_t length,
                     uint64_t theirs, ucp_rkey_h key)
{
    const ucp_request_param_t params = {};
    return ucp_put_nbx(by.ep(), mine, length, theirs, key, &params);
}

ucs_status_ptr_t get(const initiator &by, uint8_t *mine, size_t length,
                     uint64_t theirs, ucp_rkey_h key)
{
    const ucp_request_param_t params = {};
    return ucp_get_nbx(by.ep(), mine, length, theirs, key, &params);
}

} // namespace ucx_ib_dmabuf::test
