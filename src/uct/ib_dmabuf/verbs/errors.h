// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "../host/types.h"

namespace ucx_ib_dmabuf {

// The kernel's ENOTSUPP, which no header names: errno 524.
constexpr int kernel_enotsupp = 524;

// What a registration's error is about.
enum class error_scope {
    pair,    // this NIC and GPU, in this way: so it stays
    memory,  // this range or dma-buf
    passing, // room or time: it may be otherwise later
};

struct verbs_error {
    int number;
    error_scope scope;
    ucs_status_t status;
    const char *remedy;
};

// Of the errno that a dma-buf's registration left; unknown ones are the
// memory's.
const verbs_error &meaning_of(int error);

// "Operation not supported (errno 95)"
class text describe_error(int error);

} // namespace ucx_ib_dmabuf
