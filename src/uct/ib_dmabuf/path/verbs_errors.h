// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/ib_dmabuf/ucx/types.h>

namespace ucx_ib_dmabuf {

// The kernel's ENOTSUPP, which no user-space header defines.
constexpr int kernel_enotsupp = 524;

// The scope of a registration's error.
enum class error_scope {
    pair,    // this NIC and GPU, in this way: lasts
    memory,  // this range or dma-buf
    passing, // room or time: may pass
};

struct verbs_error {
    int number;
    error_scope scope;
    ucs_status_t status;
    const char *remedy;
};

// Looks up the errno of a failed dma-buf registration. An unknown errno has the
// scope `memory`.
const verbs_error &meaning_of(int error);

// "Operation not supported (errno 95)"
class text describe_error(int error);

} // namespace ucx_ib_dmabuf
