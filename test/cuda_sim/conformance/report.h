// SPDX-License-Identifier: BSD-3-Clause
//
// A table of behaviours in TAP: claims are tests, observations are comments.
#pragma once

#include <cuda.h>
#include <string>

namespace ucx_ib_dmabuf::conformance {

void section(const char *title);

// A behaviour on which this project relies; 'seen' is printed with it.
void claim(bool holds, const std::string &text, const std::string &seen = "");

void claim_result(CUresult expected, CUresult seen, const std::string &text);
void claim_refused(CUresult seen, const std::string &text);

// A behaviour on which nothing relies.
void observe(const std::string &text, const std::string &seen);

std::string name_of(CUresult result);

// Prints the plan. Returns the number of claims that do not hold.
int finish();

} // namespace ucx_ib_dmabuf::conformance
