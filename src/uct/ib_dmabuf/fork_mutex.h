// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fork.h"

namespace ucx_ib_dmabuf {

template <std::mutex &mutex>
void keep_from_forks()
{
    at_fork<&mutex>();
}

} // namespace ucx_ib_dmabuf
