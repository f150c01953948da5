// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_VERBS_ERRORS_H_
#define UCX_IB_DMABUF_VERBS_ERRORS_H_

#include "../host/types.h"
#include "../report.h"
#include <cstddef>
#include <cstdint>

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
text describe_error(int error);

// A registration of GPU memory that failed in libibverbs or below.
struct failed_call {
    const char *device;
    const char *verb;
    int gpu; // the vendor's ordinal
    uintptr_t address;
    size_t length;
    int error; // errno

    text describe() const;
    // Warns once for each cause, with the remedy; of what passes there is a
    // debug message.
    void report(const text &cause) const;
};

} // namespace ucx_ib_dmabuf

#endif
