// SPDX-License-Identifier: BSD-3-Clause
#include "versions.h"
#include "abi.h"
#include "library.h"
#include <cstdio>

namespace ucx_ib_dmabuf {
namespace {

// 1.23 becomes 1023; 0 if the text is no version.
unsigned number(const char *version)
{
    unsigned major = 0, minor = 0;

    return (sscanf(version, "%u.%u", &major, &minor) == 2)
               ? major * 1000 + minor
               : 0;
}

using pack_function = ucs_status_t(uct_md_h md, uct_mem_h memh, void *buffer);

// mkey_pack of a domain since 1.16. Earlier versions pass the buffer in the
// length's place.
ucs_status_t mkey_pack(uct_md_h, uct_mem_h memh, void *, size_t length,
                       const uct_md_mkey_pack_params_t *, void *buffer) noexcept
{
    return ((length == SIZE_MAX) && (buffer == memh)) ? UCS_OK
                                                      : UCS_ERR_UNSUPPORTED;
}

bool packs_ranges(pack_function *pack)
{
    void *ops[max_md_ops] = {};
    uct_md_t md{ops, nullptr};
    uint64_t buffer = 0; // also the handle

    ops[op_mkey_pack] = reinterpret_cast<void *>(mkey_pack);
    return pack(&md, &buffer, &buffer) == UCS_OK;
}

} // namespace

std::string version_of(const library &ucp)
{
    const auto get = ucp.symbol<const char *()>("ucp_get_version_string");
    return (get == nullptr) ? "" : get();
}

bool is_newer_than_known(const std::string &version)
{
    return number(version.c_str()) > number(newest_known_ucx);
}

bool claims_1_16(const std::string &version)
{
    return number(version.c_str()) >= 1016;
}

// Tests how uct_md_mkey_pack() calls a domain. UCX from 1.19 on needs no test.
bool is_too_old(const library &uct_ib)
{
    const auto pack = uct_ib.symbol<pack_function>("uct_md_mkey_pack");

    return (uct_ib.symbol(symbol_of_ucs) != nullptr) &&
           (uct_ib.symbol(sign_of_typed_estimates) == nullptr) &&
           ((pack == nullptr) || !packs_ranges(pack));
}

} // namespace ucx_ib_dmabuf
