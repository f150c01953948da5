// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "libraries.h"
#include <string>
#include <ucp/api/ucp.h>

inline void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        fail((std::string(what) + ": " + ucs_status_string(status)).c_str());
    }
}

// A UCP context with a worker.
struct ucp_start {
    ucp_start()
    {
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features   = UCP_FEATURE_TAG | UCP_FEATURE_RMA;
        check(ucp_init(&params, nullptr, &context), "ucp_init");
        const ucp_worker_params_t usual{};
        check(ucp_worker_create(context, &usual, &worker), "a worker");
    }
    // Returns an endpoint to the worker itself.
    ucp_ep_h connect()
    {
        size_t size = 0;
        ucp_ep_h ep = nullptr;
        ucp_ep_params_t to{};
        to.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        check(ucp_worker_get_address(
                  worker, const_cast<ucp_address_t **>(&to.address), &size),
              "an address");
        check(ucp_ep_create(worker, &to, &ep), "an endpoint");
        return ep;
    }

    ucp_context_h context = nullptr;
    ucp_worker_h worker   = nullptr;
};
