// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/ib_dmabuf/ucx/types.h>

// For tests that include no header of UCX.
using ucx_ib_dmabuf::ucs_status_t;
using enum ucx_ib_dmabuf::ucs_status_t;
