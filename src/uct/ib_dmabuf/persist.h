// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <thread>
#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// Calls until it succeeds, at most a few times more than once, after a pause of
// milliseconds each.
template <class Call>
ucs_status_t persist(Call call)
{
    constexpr int more_attempts = 3;
    std::chrono::milliseconds pause{1};
    ucs_status_t status = call();

    for (int i = 0; i < more_attempts && status != UCS_OK; ++i) {
        std::this_thread::sleep_for(pause);
        pause *= 2;
        status = call();
    }
    return status;
}

} // namespace ucx_ib_dmabuf
