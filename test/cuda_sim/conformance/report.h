// SPDX-License-Identifier: BSD-3-Clause
//
// A table of behaviours in TAP: what is claimed is a test, what is only
// observed is a comment.
#pragma once

#include <cuda.h>
#include <string>

namespace ucx_ib_dmabuf::conformance {

void section(const char *title);

// A behaviour that this project rests on; 'seen' is printed with it.
void claim(bool holds, const std::string &text, const std::string &seen = "");

void claim_result(CUresult expected, CUresult seen, const std::string &text);
void claim_refused(CUresult seen, const std::string &text);

// A behaviour that nothing rests on.
void observe(const std::string &text, const std::string &seen);

std::string name_of(CUresult result);

// Print the plan; returns how many claims do not hold.
int finish();

} // namespace ucx_ib_dmabuf::conformance
