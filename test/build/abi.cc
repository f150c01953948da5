// SPDX-License-Identifier: BSD-3-Clause
//
// Compares our declarations with the headers of the UCX that abi.tap names:
// compiling it is the test. UCX_MINOR is that UCX's minor version. UCX_SOURCES:
// the UCX is a source tree, which has the headers that UCX does not install.
#include <infiniband/verbs.h>
#include <limits>

extern "C" {
#include <ucm/api/ucm.h>
#include <ucs/config/global_opts.h>
#include <ucs/config/parser.h>
#include <ucs/memory/memory_type.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/sys/string.h>
#include <ucs/sys/topo/base/topo.h>
#include <uct/api/uct.h>
#ifdef UCX_SOURCES
#include <ucm/event/event.h>
#include <ucm/util/reloc.h>
#include <ucp/core/ucp_context.h>
#include <ucp/rma/rma.h>
#include <uct/api/v2/uct_v2.h>
#include <uct/base/uct_component.h>
#include <uct/base/uct_iface.h>
#include <uct/base/uct_md.h>
#include <uct/ib/base/ib_md.h>
#endif
}
#include <uct/ib_dmabuf/ucx/abi.h>
#include <uct/ib_dmabuf/ucx/cuda_copy_ops.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <uct/ib_dmabuf/ucx/settings.h>
#include <uct/ib_dmabuf/ucx/transport_types.h>
#include <uct/ib_dmabuf/ucx/ucm.h>
#include <uct/ib_dmabuf/ucx/ucp.h>
#include <uct/ib_dmabuf/ucx/ucp_types.h>

// The comparisons are of what is declared above.
#include "same.h"

#define SAME_PLACE(type, our_type, member)                                     \
    static_assert(offsetof(::type, member) == offsetof(ours::our_type, member))
#define OP(member, place)                                                      \
    static_assert(offsetof(::uct_md_ops_t, member) == (place) * sizeof(void *))

// types.h
SAME_SIZE(ucs_status_t, ucs_memory_type_t);
SAME(UCS_OK, UCS_INPROGRESS, UCS_ERR_NO_RESOURCE, UCS_ERR_IO_ERROR,
     UCS_ERR_NO_MEMORY, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_ADDR,
     UCS_ERR_NO_ELEM, UCS_ERR_NO_DEVICE, UCS_ERR_BUSY, UCS_ERR_CANCELED,
     UCS_ERR_EXCEEDS_LIMIT, UCS_ERR_UNSUPPORTED, UCS_MEMORY_TYPE_HOST,
     UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA_MANAGED, UCS_MEMORY_TYPE_ROCM,
     UCT_MD_MEM_FLAG_NONBLOCK, UCT_MD_MEM_FLAG_HIDE_ERRORS,
     UCT_MD_MEM_ACCESS_REMOTE_ATOMIC, UCT_MD_MEM_ACCESS_RMA);
SAME_AT(uct_completion_t, func, count, status);
// transport_types.h
constexpr ::ucs_status_t (*failure_handler)(
    void *, ::uct_ep_h, ::ucs_status_t) = ::uct_error_handler_t{};
static_assert(UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG ==
              uint64_t(ours::uct_iface_params_t::field_err_handler_arg));
static_assert(UCT_IFACE_PARAM_FIELD_ERR_HANDLER ==
              uint64_t(ours::uct_iface_params_t::field_err_handler));
static_assert(2 * UCT_IFACE_PARAM_FIELD_FEATURES - 1 ==
              uint64_t(ours::uct_iface_params_t::known_fields));
static_assert(UCT_IFACE_OPEN_MODE_DEVICE ==
              uint64_t(ours::uct_iface_params_t::mode_device));
SAME_SIZE(uct_iface_params_t);
SAME_AT(uct_iface_params_t, field_mask, open_mode, mode.device.tl_name,
        err_handler_arg, err_handler, features);

#define FLAG(name, ours_name)                                                  \
    static_assert(uint64_t(UCT_IFACE_FLAG_##name) ==                           \
                  uint64_t(ours::iface_flag_##ours_name))
#define IFACE_OP(member, place)                                                \
    static_assert(offsetof(::uct_iface_ops_t, member) ==                       \
                  (place) * sizeof(void *))
#define ATTR(member, our_member)                                               \
    static_assert(offsetof(::uct_iface_attr, member) ==                        \
                  offsetof(ours::uct_iface_attr_t, our_member))
FLAG(PENDING, pending);
FLAG(PUT_SHORT, put_short);
FLAG(PUT_ZCOPY, put_zcopy);
FLAG(GET_SHORT, get_short);
FLAG(GET_ZCOPY, get_zcopy);
FLAG(CONNECT_TO_IFACE, connect_to_iface);
SAME(UCT_MD_FLAG_REG, UCT_DEVICE_TYPE_ACC);
#define OF_ADDRESS(unused, member)                                             \
    AT(ucs_sys_bus_id_t, member, cuda_copy_ops::pci_address, member)
EACH(OF_ADDRESS, , domain, bus, slot, function);
static_assert(sizeof(::ucs_sys_bus_id_t) ==
              sizeof(ours::cuda_copy_ops::pci_address));
SAME(UCT_MD_MEM_ATTR_FIELD_MEM_TYPE, UCT_MD_MEM_ATTR_FIELD_SYS_DEV,
     UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS, UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH);
SAME_AT(uct_md_mem_attr_t, field_mask, mem_type, sys_dev, base_address,
        alloc_length);
SAME_AT(uct_iov_t, buffer, length);
SAME_SIZE(uct_iov_t);
ATTR(cap.put, put);
ATTR(cap.put.max_iov, put.max_iov);
ATTR(cap.get, get);
ATTR(cap.am, am);
ATTR(cap.atomic32, atomics);
ATTR(cap.flags, flags);
ATTR(cap.event_flags, event_flags);
ATTR(overhead, overhead);
ATTR(bandwidth, dedicated_bandwidth);
ATTR(latency, latency);
IFACE_OP(ep_put_short, ours::op_put_short);
IFACE_OP(ep_put_zcopy, ours::op_put_zcopy);
IFACE_OP(ep_get_short, ours::op_get_short);
IFACE_OP(ep_get_zcopy, ours::op_get_zcopy);
IFACE_OP(iface_query, ours::op_iface_query);
SAME(UCT_MD_MEM_ATTR_FIELD_DMABUF_FD, UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET);
SAME_AT(uct_md_mem_attr_t, dmabuf_fd, dmabuf_offset);

// ucm.h
SAME(UCM_EVENT_MEM_TYPE_ALLOC, UCM_EVENT_MEM_TYPE_FREE,
     UCM_EVENT_FLAG_NO_INSTALL);
static_assert(sizeof(::ucm_event_t) <= sizeof(ours::ucm_event_t));
SAME_PLACE(ucm_event_t, ucm_event_t, mem_type.address);
SAME_PLACE(ucm_event_t, ucm_event_t, mem_type.size);
SAME_PLACE(ucm_event_t, ucm_event_t, mem_type.mem_type);
#if UCX_MINOR >= 22
SAME_PLACE(ucm_event_t, ucm_event_t, mem_type.sys_dev);
static_assert(UCS_SYS_DEVICE_ID_UNKNOWN == 255);
#endif
SAME_AT(ucs_list_link_t, next);
static_assert(sizeof(::ucm_global_config_t::cuda_hook_modes) >=
              sizeof(uint32_t));
static_assert((1 << UCM_MMAP_HOOK_RELOC) == 2 &&
              (1 << UCM_MMAP_HOOK_BISTRO) == 4);

// ucs.h, log.h
static_assert(offsetof(::ucs_global_opts_t, log_component.log_level) == 0);
static_assert(int(UCS_LOG_LEVEL_ERROR) == int(ours::log_level::error));
static_assert(int(UCS_LOG_LEVEL_WARN) == int(ours::log_level::warn));
static_assert(int(UCS_LOG_LEVEL_INFO) == int(ours::log_level::info));
static_assert(int(UCS_LOG_LEVEL_DEBUG) == int(ours::log_level::debug));
static_assert(int(UCS_LOG_LEVEL_TRACE) == int(ours::log_level::trace));
static_assert(sizeof(::ucs_memory_info_t) <= 16 * sizeof(uint64_t));

// settings.h
static_assert(sizeof(::ucs_config_field_t) ==
              ((UCX_MINOR >= 17) ? 11 : 10) * sizeof(void *));
static_assert(offsetof(::ucs_config_field_t, dfl_value) == 8);
static_assert(offsetof(::ucs_config_field_t, offset) == 24);
static_assert(offsetof(::ucs_config_field_t, parser.read) == 32);
static_assert(offsetof(::ucs_config_global_list_entry_t, table) == 16);
static_assert(offsetof(::ucs_config_global_list_entry_t, list) == 32);
static_assert(UCS_MEMUNITS_INF == ours::setting_is_inf);
static_assert(UCS_MEMUNITS_AUTO == ours::setting_is_auto);
static_assert(UCS_ULUNITS_INF == ours::setting_is_inf);
static_assert(int(UCS_CONFIG_OFF) == int(ours::on_off_auto::off));
static_assert(int(UCS_CONFIG_ON) == int(ours::on_off_auto::on));
static_assert(int(UCS_CONFIG_AUTO) == int(ours::on_off_auto::automatic));

// ucp.h
static_assert(int(UCT_ATOMIC_OP_ADD) == int(ours::atomic_operation::add));
static_assert(int(UCT_ATOMIC_OP_AND) == int(ours::atomic_operation::bit_and));
static_assert(int(UCT_ATOMIC_OP_OR) == int(ours::atomic_operation::bit_or));
static_assert(int(UCT_ATOMIC_OP_XOR) == int(ours::atomic_operation::bit_xor));
static_assert(int(UCT_ATOMIC_OP_SWAP) == int(ours::atomic_operation::swap));
static_assert(int(UCT_ATOMIC_OP_CSWAP) == int(ours::atomic_operation::cswap));

#ifdef UCX_SOURCES
// types.h
SAME(UCT_MD_MEM_DEREG_FIELD_MEMH, UCT_MD_MEM_DEREG_FIELD_FLAGS,
     UCT_MD_MEM_DEREG_FIELD_COMPLETION, UCT_MD_MEM_DEREG_FLAG_INVALIDATE,
     UCT_MD_MKEY_PACK_FIELD_FLAGS, UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA,
     UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO, UCT_MD_FLAG_REG_DMABUF,
     UCT_MD_MEM_REG_FIELD_FLAGS, UCT_MD_MEM_REG_FIELD_DMABUF_FD,
     UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET, UCT_MD_MEM_SYMMETRIC_RKEY);
#if UCX_MINOR >= 18
SAME(UCT_MD_MEM_GVA);
#endif
SAME_AT(uct_md_mem_dereg_params_t, field_mask, flags, memh, comp);
SAME_AT(uct_md_mkey_pack_params_t, field_mask, flags);
SAME_AT(uct_md_t, ops, component);
SAME_AT(uct_component_t, name, md_open);

static_assert((UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE |
               UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE) ==
              ours::uct_perf_attr_t::field_memory_types);
SAME_AT(uct_perf_attr_t, field_mask, local_memory_type, remote_memory_type);
SAME_AT(uct_md_mem_reg_params_t, field_mask, flags, dmabuf_fd, dmabuf_offset);
static_assert(sizeof(::uct_md_mem_reg_params_t) <=
              sizeof(ours::uct_md_mem_reg_params_t));
#if UCX_MINOR >= 22
SAME(UCT_MD_MEM_REG_FIELD_MEM_TYPE);
SAME_AT(uct_md_mem_reg_params_t, mem_type);
#endif

// abi.h, domain.h
OP(close, ours::op_close);
OP(query, ours::op_query);
OP(mem_reg, ours::op_mem_reg);
OP(mem_dereg, ours::op_mem_dereg);
OP(mkey_pack, ours::op_mkey_pack);
static_assert(sizeof(::uct_md_ops_t) <= ours::max_ops * sizeof(void *));
static_assert(offsetof(::uct_ib_md_t, pd) == ours::pd_offset);
static_assert(offsetof(::uct_ib_mem_t, lkey) == 0);
static_assert(offsetof(::uct_ib_mem_t, rkey) == 4);
static_assert(offsetof(::uct_ib_mem_t, flags) == 8);
AT(uct_md_attr_v2_t, field_mask, uct_md_attr_v2, field_mask);
AT(uct_md_attr_v2_t, flags, uct_md_attr_v2, flags);
AT(uct_md_attr_v2_t, reg_mem_types, uct_md_attr_v2, reg_mem_types);
static_assert(sizeof(::uct_md_attr_v2_t) <= 4096);
constexpr ::ucs_status_t (*query)(::uct_md_h, ::uct_md_attr_v2_t *) =
    ::uct_md_query_func_t{};
constexpr ::ucs_status_t (*reg)(::uct_md_h, void *, size_t,
                                const ::uct_md_mem_reg_params_t *,
                                ::uct_mem_h *) = ::uct_md_mem_reg_func_t{};
constexpr ::ucs_status_t (*dereg)(::uct_md_h,
                                  const ::uct_md_mem_dereg_params_t *) =
    ::uct_md_mem_dereg_func_t{};
constexpr ::ucs_status_t (*pack)(::uct_md_h, ::uct_mem_h, void *, size_t,
                                 const ::uct_md_mkey_pack_params_t *,
                                 void *) = ::uct_md_mkey_pack_func_t{};

// transport_types.h
#define OF_COMPONENT(unused, member)                                           \
    SAME_PLACE(uct_component_t, whole_component, member)
EACH(OF_COMPONENT, , md_open, query_md_resources, rkey_unpack, rkey_compare,
     md_config, tl_list, list, md_vfs_init);
static_assert(sizeof(::uct_component_t) == sizeof(ours::whole_component));
SAME_SIZE(uct_tl_t);
static_assert(sizeof(::uct_tl_t::name) <= sizeof(ours::uct_tl_t::name));
SAME_PLACE(uct_tl_t, uct_tl_t, iface_open);
SAME_PLACE(uct_tl_t, uct_tl_t, config);
SAME_PLACE(uct_tl_t, uct_tl_t, list);
SAME_PLACE(uct_base_iface_t, uct_iface_t, md);
OP(mem_query, 7);
OP(detect_memory_type, 10);
// The fields that cuda_copy_component looks for, and its assumptions
// about 1.16.
static_assert(offsetof(::uct_md_attr_v2_t, component_name) ==
              ((UCX_MINOR <= 17) ? 104 : 112));
static_assert(offsetof(::uct_md_attr_v2_t, component_name) -
                  offsetof(::uct_md_attr_v2_t, detect_mem_types) ==
              48);
static_assert(offsetof(::uct_md_attr_v2_t, access_mem_types) -
                  offsetof(::uct_md_attr_v2_t, detect_mem_types) ==
              16);
static_assert(offsetof(::uct_md_attr_v2_t, max_reg) == 16);
static_assert((UCX_MINOR != 16) ||
              ((offsetof(::uct_md_attr_v2_t, local_cpus) == 128) &&
               (sizeof(::uct_md_attr_v2_t::local_cpus) == 128)));
#if UCX_MINOR >= 22
AT(uct_md_mem_attr_v2_t, mem_flags, uct_md_mem_attr_t, mem_flags);
#endif

// ucm.h
SAME_AT(ucm_reloc_patch_t, symbol, value);
static_assert(sizeof(::ucm_reloc_patch_t) <= sizeof(ours::ucm_reloc_patch_t));
SAME_AT(ucm_event_installer_t, install, list);

// ucp.h, ucp_types.h
static_assert(UCP_FEATURE_AMO == ours::feature_amo);
SAME(UCT_CB_PARAM_FLAG_DESC);
SAME_AT(ucp_am_handler_t, features, cb, proxy_cb);
SAME_AT(ucp_atomic_req_hdr_t, address, length, opcode);
SAME_SIZE(ucp_atomic_req_hdr_t);
#endif // UCX_SOURCES
