// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_HOST_VERSION_H_
#define UCX_IB_DMABUF_HOST_VERSION_H_

#include <string>

// For messages only: what a UCX has is seen by its symbols, as vendors ship
// what lies between two versions.
namespace ucx_ib_dmabuf {

class library;

constexpr char newest_known[] = "1.23";

// That of the libucp which belongs to a libuct_ib, "1.23.0"; empty where none
// is loaded. May throw std::bad_alloc.
std::string version_of(const library &uct_ib);

bool is_newer_than_known(const std::string &version);

} // namespace ucx_ib_dmabuf

#endif
