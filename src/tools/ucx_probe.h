// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace ucx_ib_dmabuf::info {

// ucx_answer::missing for a UCX before 1.16.
constexpr char too_old[] = "1.16";

struct ucx_answer {
    std::string version{}; // "1.23.0"; empty: not known
    std::string missing{}; // what the plug-in needs, but cannot find
    std::string error{};   // why it cannot be loaded at all
    std::string unseen{};  // releases of CUDA memory that no hook sees, and why
    std::string uncopied{}; // what the plug-in needs to copy for it
    std::string no_cuda{};  // why its CUDA module does not load
};

// Checks a UCX with the plug-in's own code, given its libucp, its libuct_ib and
// its CUDA module, which may be "". Runs in a child process, as loading a UCX
// has side effects. Returns after some seconds at most.
ucx_answer probe_ucx(const std::string &libucp, const std::string &libuct_ib,
                     const std::string &libuct_cuda);

} // namespace ucx_ib_dmabuf::info
