// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TOOLS_OUTPUT_H_
#define UCX_IB_DMABUF_TOOLS_OUTPUT_H_

#include "findings.h"
#include <cstdio>

namespace ucx_ib_dmabuf::info {

extern const char version[]; // the package's

// For people: parts, their checks, and a matrix of GPUs and NICs.
void print_text(const report &all, bool coloured, FILE *to);

// For programs; docs/info.md has the schema.
constexpr int schema_version = 1;
void print_json(const report &all, FILE *to);

} // namespace ucx_ib_dmabuf::info

#endif
