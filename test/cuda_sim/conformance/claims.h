// SPDX-License-Identifier: BSD-3-Clause
//
// The parts of the table. Each runs with the first GPU's primary context
// current, and leaves nothing allocated.
#pragma once

namespace ucx_ib_dmabuf::conformance {

void ask_without_gpu(); // for check_calls(); before the driver is loaded
void check_calls();
void check_queries();
void check_exports();
void check_kinds();
void check_identity();
void check_release();
void check_contexts();
void check_gone();
void check_captures();
void check_kernels();
void check_mappings();
void check_lookup();
void check_fork();

} // namespace ucx_ib_dmabuf::conformance
