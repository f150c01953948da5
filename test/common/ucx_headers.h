// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_COMMON_UCX_HEADERS_H_
#define TEST_COMMON_UCX_HEADERS_H_

// UCX 1.13's internal headers, which are C. What they include of C++ comes
// before.
#include <infiniband/verbs.h>
#include <limits>

#include <config.h> // UCX's
// Which leaves out trace messages, as it was built; ours are to be had.
#undef UCS_MAX_LOG_LEVEL
#define UCS_MAX_LOG_LEVEL UCS_LOG_LEVEL_LAST
extern "C" {
#include <uct/ib/base/ib_md.h>
}

#endif
