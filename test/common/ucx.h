// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdarg>
#include <uct/ib_dmabuf/ucx/abi.h>

// The functions of UCX that tests use beside the plug-in, in the plug-in's own
// declarations: for tests that include no header of UCX.
using ucx_ib_dmabuf::ucs_status_t;
using enum ucx_ib_dmabuf::ucs_status_t;
using ucx_ib_dmabuf::uct_completion_t;
using ucx_ib_dmabuf::uct_md_attr_v2;
using ucx_ib_dmabuf::uct_md_h;
using ucx_ib_dmabuf::uct_md_mem_dereg_params_t;
using ucx_ib_dmabuf::uct_md_mem_reg_params_t;
using ucx_ib_dmabuf::uct_md_mkey_pack_params_t;
using ucx_ib_dmabuf::uct_mem_h;

extern "C" {

// The name is that of UCX's variable, without "UCX_".
ucs_status_t ucs_global_opts_set_value(const char *name, const char *value);

// Returns 0 to hide the message from other handlers. Level 0 is fatal.
using ucs_log_func_t = int (*)(const char *file, unsigned line,
                               const char *function, int level,
                               const void *component, const char *pattern,
                               va_list args);
void ucs_log_push_handler(ucs_log_func_t handler);
void ucs_log_pop_handler();

ucs_status_t ucs_memtype_cache_lookup(const void *address, size_t size,
                                      void *info);
void ucs_memtype_cache_remove(const void *address, size_t size);

void ucm_event_dispatch(ucx_ib_dmabuf::ucm_event_type_t type,
                        ucx_ib_dmabuf::ucm_event_t *event);

} // extern "C"

namespace ucx {

constexpr unsigned access_rma = ucx_ib_dmabuf::UCT_MD_MEM_ACCESS_RMA;
constexpr unsigned access_all =
    access_rma | unsigned{ucx_ib_dmabuf::UCT_MD_MEM_ACCESS_REMOTE_ATOMIC};
constexpr unsigned hide_errors = ucx_ib_dmabuf::UCT_MD_MEM_FLAG_HIDE_ERRORS;
constexpr unsigned invalidate =
    ucx_ib_dmabuf::UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA;

inline void use_memtype_cache(bool yes)
{
    ucs_global_opts_set_value("MEMTYPE_CACHE", yes ? "y" : "n");
}
inline void set_log_level(const char *level)
{
    ucs_global_opts_set_value("LOG_LEVEL", level);
}

} // namespace ucx
