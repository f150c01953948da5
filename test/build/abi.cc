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

namespace ours = ucx_ib_dmabuf;

#define SAME(name) static_assert(int64_t(ours::name) == int64_t(::name))
#define AT(type, member, our_type, our_member)                                 \
    static_assert(offsetof(::type, member) ==                                  \
                  offsetof(ours::our_type, our_member));                       \
    static_assert(sizeof(::type::member) == sizeof(ours::our_type::our_member))
#define SAME_AT(type, member) AT(type, member, type, member)
#define SAME_SIZE(type)       static_assert(sizeof(::type) == sizeof(ours::type))
#define OP(member, place)                                                      \
    static_assert(offsetof(::uct_md_ops_t, member) == (place) * sizeof(void *))

// types.h
SAME_SIZE(ucs_status_t);
SAME_SIZE(ucs_memory_type_t);
SAME(UCS_OK);
SAME(UCS_INPROGRESS);
SAME(UCS_ERR_NO_RESOURCE);
SAME(UCS_ERR_IO_ERROR);
SAME(UCS_ERR_NO_MEMORY);
SAME(UCS_ERR_INVALID_PARAM);
SAME(UCS_ERR_INVALID_ADDR);
SAME(UCS_ERR_NO_ELEM);
SAME(UCS_ERR_NO_DEVICE);
SAME(UCS_ERR_BUSY);
SAME(UCS_ERR_CANCELED);
SAME(UCS_ERR_EXCEEDS_LIMIT);
SAME(UCS_ERR_UNSUPPORTED);
SAME(UCS_MEMORY_TYPE_HOST);
SAME(UCS_MEMORY_TYPE_CUDA);
SAME(UCS_MEMORY_TYPE_CUDA_MANAGED);
SAME(UCS_MEMORY_TYPE_ROCM);
SAME(UCT_MD_MEM_FLAG_NONBLOCK);
SAME(UCT_MD_MEM_FLAG_HIDE_ERRORS);
SAME(UCT_MD_MEM_ACCESS_REMOTE_ATOMIC);
SAME(UCT_MD_MEM_ACCESS_RMA);
SAME_AT(uct_completion_t, func);
SAME_AT(uct_completion_t, count);
SAME_AT(uct_completion_t, status);
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
SAME_AT(uct_iface_params_t, field_mask);
SAME_AT(uct_iface_params_t, open_mode);
SAME_AT(uct_iface_params_t, mode.device.tl_name);
SAME_AT(uct_iface_params_t, err_handler_arg);
SAME_AT(uct_iface_params_t, err_handler);
SAME_AT(uct_iface_params_t, features);

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
SAME(UCT_MD_FLAG_REG);
SAME(UCT_DEVICE_TYPE_ACC);
AT(ucs_sys_bus_id_t, domain, cuda_copy_ops::pci_address, domain);
AT(ucs_sys_bus_id_t, bus, cuda_copy_ops::pci_address, bus);
AT(ucs_sys_bus_id_t, slot, cuda_copy_ops::pci_address, slot);
AT(ucs_sys_bus_id_t, function, cuda_copy_ops::pci_address, function);
static_assert(sizeof(::ucs_sys_bus_id_t) ==
              sizeof(ours::cuda_copy_ops::pci_address));
SAME(UCT_MD_MEM_ATTR_FIELD_MEM_TYPE);
SAME(UCT_MD_MEM_ATTR_FIELD_SYS_DEV);
SAME(UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS);
SAME(UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH);
SAME_AT(uct_md_mem_attr_t, field_mask);
SAME_AT(uct_md_mem_attr_t, mem_type);
SAME_AT(uct_md_mem_attr_t, sys_dev);
SAME_AT(uct_md_mem_attr_t, base_address);
SAME_AT(uct_md_mem_attr_t, alloc_length);
SAME_AT(uct_iov_t, buffer);
SAME_AT(uct_iov_t, length);
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
SAME(UCT_MD_MEM_ATTR_FIELD_DMABUF_FD);
SAME(UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET);
SAME_AT(uct_md_mem_attr_t, dmabuf_fd);
SAME_AT(uct_md_mem_attr_t, dmabuf_offset);

// ucm.h
SAME(UCM_EVENT_MEM_TYPE_ALLOC);
SAME(UCM_EVENT_MEM_TYPE_FREE);
SAME(UCM_EVENT_FLAG_NO_INSTALL);
static_assert(sizeof(::ucm_event_t) <= sizeof(ours::ucm_event_t));
static_assert(offsetof(::ucm_event_t, mem_type.address) ==
              offsetof(ours::ucm_event_t, mem_type.address));
static_assert(offsetof(::ucm_event_t, mem_type.size) ==
              offsetof(ours::ucm_event_t, mem_type.size));
static_assert(offsetof(::ucm_event_t, mem_type.mem_type) ==
              offsetof(ours::ucm_event_t, mem_type.mem_type));
#if UCX_MINOR >= 22
static_assert(offsetof(::ucm_event_t, mem_type.sys_dev) ==
              offsetof(ours::ucm_event_t, mem_type.sys_dev));
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
SAME(UCT_MD_MEM_DEREG_FIELD_MEMH);
SAME(UCT_MD_MEM_DEREG_FIELD_FLAGS);
SAME(UCT_MD_MEM_DEREG_FIELD_COMPLETION);
SAME(UCT_MD_MEM_DEREG_FLAG_INVALIDATE);
SAME(UCT_MD_MKEY_PACK_FIELD_FLAGS);
SAME(UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA);
SAME(UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO);
SAME(UCT_MD_FLAG_REG_DMABUF);
SAME(UCT_MD_MEM_REG_FIELD_FLAGS);
SAME(UCT_MD_MEM_REG_FIELD_DMABUF_FD);
SAME(UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET);
SAME(UCT_MD_MEM_SYMMETRIC_RKEY);
#if UCX_MINOR >= 18
SAME(UCT_MD_MEM_GVA);
#endif
SAME_AT(uct_md_mem_dereg_params_t, field_mask);
SAME_AT(uct_md_mem_dereg_params_t, flags);
SAME_AT(uct_md_mem_dereg_params_t, memh);
SAME_AT(uct_md_mem_dereg_params_t, comp);
SAME_AT(uct_md_mkey_pack_params_t, field_mask);
SAME_AT(uct_md_mkey_pack_params_t, flags);
SAME_AT(uct_md_t, ops);
SAME_AT(uct_md_t, component);
SAME_AT(uct_component_t, name);
SAME_AT(uct_component_t, md_open);

static_assert((UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE |
               UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE) ==
              ours::uct_perf_attr_t::field_memory_types);
SAME_AT(uct_perf_attr_t, field_mask);
SAME_AT(uct_perf_attr_t, local_memory_type);
SAME_AT(uct_perf_attr_t, remote_memory_type);
SAME_AT(uct_md_mem_reg_params_t, field_mask);
SAME_AT(uct_md_mem_reg_params_t, flags);
SAME_AT(uct_md_mem_reg_params_t, dmabuf_fd);
SAME_AT(uct_md_mem_reg_params_t, dmabuf_offset);
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
#define SAME_PLACE(type, our_type, member)                                     \
    static_assert(offsetof(::type, member) == offsetof(ours::our_type, member))
SAME_PLACE(uct_component_t, whole_component, md_open);
SAME_PLACE(uct_component_t, whole_component, query_md_resources);
SAME_PLACE(uct_component_t, whole_component, rkey_unpack);
SAME_PLACE(uct_component_t, whole_component, rkey_compare);
SAME_PLACE(uct_component_t, whole_component, md_config);
SAME_PLACE(uct_component_t, whole_component, tl_list);
SAME_PLACE(uct_component_t, whole_component, list);
SAME_PLACE(uct_component_t, whole_component, md_vfs_init);
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
SAME_AT(ucm_event_installer_t, install);
SAME_AT(ucm_event_installer_t, list);

// ucp.h, ucp_types.h
static_assert(UCP_FEATURE_AMO == ours::feature_amo);
SAME(UCT_CB_PARAM_FLAG_DESC);
SAME_AT(ucp_am_handler_t, features);
SAME_AT(ucp_am_handler_t, cb);
SAME_AT(ucp_am_handler_t, proxy_cb);
SAME_AT(ucp_atomic_req_hdr_t, address);
SAME_AT(ucp_atomic_req_hdr_t, length);
SAME_AT(ucp_atomic_req_hdr_t, opcode);
SAME_SIZE(ucp_atomic_req_hdr_t);
#endif // UCX_SOURCES
