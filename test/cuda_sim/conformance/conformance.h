// SPDX-License-Identifier: BSD-3-Clause
//
// A table of behaviours in TAP: claims are tests, observations are comments.
#pragma once

#include "../compat.h"

#include <common/gpu.h>
#include <cstdint>
#include <string>

namespace ucx_ib_dmabuf::conformance {

inline constexpr size_t KiB = 1024, MiB = 1024 * KiB;

// Begins a part of the table.
void section(const char *title);

// A behaviour on which this project relies; 'seen' is printed with it.
void claim(bool holds, const std::string &text, const std::string &seen = "");
void claim_result(CUresult expected, CUresult seen, const std::string &text);
void claim_refused(CUresult seen, const std::string &text);

// A behaviour on which nothing relies.
void observe(const std::string &text, const std::string &seen);

std::string name_of(CUresult result);

uint64_t host_page();

CUresult export_range(int *fd, CUdeviceptr address, size_t size,
                      unsigned long long flags = 0);
// As above, but closes the descriptor.
CUresult try_export(CUdeviceptr address, size_t size,
                    unsigned long long flags = 0);

// Returns 0 if the address is unknown.
unsigned long long buffer_id(CUdeviceptr address);

// Returns a numeric pointer attribute; -1 if the query fails.
long long number(CUpointer_attribute which, CUdeviceptr address);

// The parts of the table. Each runs with the first GPU's primary context
// current, and leaves nothing allocated.
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
void ask_at_exit(); // for check_simulated(); before the driver is loaded
void check_simulated();

} // namespace ucx_ib_dmabuf::conformance
