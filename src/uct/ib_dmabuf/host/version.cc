// SPDX-License-Identifier: BSD-3-Clause
#include "version.h"
#include "library.h"
#include <cstdio>

namespace ucx_ib_dmabuf {
namespace {

// 1.23 is 1023; 0 for what is no version.
unsigned number(const char *version)
{
    unsigned major = 0, minor = 0;

    return (sscanf(version, "%u.%u", &major, &minor) == 2)
               ? major * 1000 + minor
               : 0;
}

} // namespace

std::string version_of(const library &uct_ib)
{
    const void *uct = uct_ib.symbol("uct_query_components");

    for (const std::string &path : library::all()) {
        const library ucp(path.c_str());
        const auto get = ucp.symbol<const char *()>("ucp_get_version_string");
        if ((get != nullptr) && ucp.has(reinterpret_cast<const void *>(get)) &&
            (ucp.symbol("uct_query_components") == uct)) {
            return get();
        }
    }
    return "";
}

bool is_newer_than_known(const std::string &version)
{
    return number(version.c_str()) > number(newest_known);
}

// uct_ib_iface_resolve_remote_flid() came to both branches when mkey_pack had
// got its range (uct_rkey_compare() months before); uct_rkey_unpack_v2() is of
// UCT's interface, should the first one go.
bool is_too_old(const library &uct_ib)
{
    return (uct_ib.symbol("ucs_log_dispatch") != nullptr) &&
           (uct_ib.symbol("uct_ib_iface_resolve_remote_flid") == nullptr) &&
           (uct_ib.symbol("uct_rkey_unpack_v2") == nullptr);
}

} // namespace ucx_ib_dmabuf
