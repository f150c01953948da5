// SPDX-License-Identifier: BSD-3-Clause
//
// Compares our declarations with the headers of the UCX that abi.tap names:
// compiling it is the test. UCX_MINOR is that UCX's minor version. UCX_SOURCES:
// the UCX is a source tree, which has the headers that UCX does not install.
#include <infiniband/verbs.h>

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
#include <uct/ib_dmabuf/cuda_copy/cuda_copy.h>
#include <uct/ib_dmabuf/ucx/abi.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <uct/ib_dmabuf/ucx/settings.h>
#include <uct/ib_dmabuf/ucx/ucm.h>
#include <uct/ib_dmabuf/ucx/ucp.h>
#include <uct/ib_dmabuf/ucx/versions.h>

#include "same.h"

#define EQUAL(theirs, our) static_assert(int64_t(theirs) == int64_t(our))
// A member of the same place whose type is only like theirs.
#define PLACE(type, member)                                                    \
    EQUAL(offsetof(::type, member), offsetof(ours::type, member))
#define PLACES(type, ...) EACH(PLACE, type, __VA_ARGS__)
// An operation, by its index.
#define OP(type, member, index)                                                \
    EQUAL(offsetof(::type, member), (index) * sizeof(void *))

// types.h
SAME_SIZE(ucs_status_t);
SAME_SIZE(ucs_memory_type_t);
SAME(UCS_OK, UCS_INPROGRESS, UCS_ERR_NO_RESOURCE, UCS_ERR_IO_ERROR);
SAME(UCS_ERR_NO_MEMORY, UCS_ERR_INVALID_PARAM, UCS_ERR_INVALID_ADDR);
SAME(UCS_ERR_NO_ELEM, UCS_ERR_NO_DEVICE, UCS_ERR_BUSY, UCS_ERR_CANCELED);
SAME(UCS_ERR_EXCEEDS_LIMIT, UCS_ERR_UNSUPPORTED);
SAME(UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_CUDA, UCS_MEMORY_TYPE_CUDA_MANAGED);
SAME(UCS_MEMORY_TYPE_ROCM, UCT_MD_MEM_FLAG_HIDE_ERRORS);
SAME(UCT_MD_MEM_ACCESS_REMOTE_ATOMIC, UCT_MD_MEM_ACCESS_RMA, UCT_MD_FLAG_REG);
SAME_AT(uct_completion_t, func, count, status);

// abi.h
constexpr ::ucs_status_t (*failure_handler)(
    void *, ::uct_ep_h, ::ucs_status_t) = ::uct_error_handler_t{};
using iface_params                      = ours::uct_iface_params_t;
EQUAL(UCT_IFACE_PARAM_FIELD_ERR_HANDLER_ARG,
      iface_params::field_err_handler_arg);
EQUAL(UCT_IFACE_PARAM_FIELD_ERR_HANDLER, iface_params::field_err_handler);
EQUAL(2 * UCT_IFACE_PARAM_FIELD_FEATURES - 1, iface_params::known_fields);
EQUAL(UCT_IFACE_OPEN_MODE_DEVICE, iface_params::mode_device);
SAME_SIZE(uct_iface_params_t);
SAME_AT(uct_iface_params_t, field_mask, open_mode, mode.device.tl_name,
        err_handler_arg, err_handler, features);
EQUAL(UCT_IFACE_FLAG_PENDING, ours::iface_flag_pending);
EQUAL(UCT_IFACE_FLAG_PUT_SHORT, ours::iface_flag_put_short);
EQUAL(UCT_IFACE_FLAG_PUT_ZCOPY, ours::iface_flag_put_zcopy);
EQUAL(UCT_IFACE_FLAG_GET_SHORT, ours::iface_flag_get_short);
EQUAL(UCT_IFACE_FLAG_GET_ZCOPY, ours::iface_flag_get_zcopy);
EQUAL(UCT_IFACE_FLAG_CONNECT_TO_IFACE, ours::iface_flag_connect_to_iface);
SAME(UCT_DEVICE_TYPE_ACC, UCT_MD_MEM_ATTR_FIELD_MEM_TYPE);
SAME(UCT_MD_MEM_ATTR_FIELD_SYS_DEV, UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS);
SAME(UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH, UCT_MD_MEM_ATTR_FIELD_DMABUF_FD);
SAME(UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET);
SAME_AT(uct_md_mem_attr_t, field_mask, mem_type, sys_dev, base_address,
        alloc_length, dmabuf_fd, dmabuf_offset);
SAME_AT(uct_iov_t, buffer, length);
SAME_SIZE(uct_iov_t);
#define ATTR(member, our_member)                                               \
    EQUAL(offsetof(::uct_iface_attr, member),                                  \
          offsetof(ours::uct_iface_attr_t, our_member))
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
OP(uct_iface_ops_t, ep_put_short, ours::op_put_short);
OP(uct_iface_ops_t, ep_put_zcopy, ours::op_put_zcopy);
OP(uct_iface_ops_t, ep_get_short, ours::op_get_short);
OP(uct_iface_ops_t, ep_get_zcopy, ours::op_get_zcopy);
OP(uct_iface_ops_t, iface_query, ours::op_iface_query);

// cuda_copy/cuda_copy.h
using pci_address = ours::cuda_copy_ops::pci_address;
EQUAL(sizeof(::ucs_sys_bus_id_t), sizeof(pci_address));
#define PCI(_, member)                                                         \
    AT(ucs_sys_bus_id_t, member, cuda_copy_ops::pci_address, member)
EACH(PCI, _, domain, bus, slot, function);

// ucm.h
SAME(UCM_EVENT_MEM_TYPE_ALLOC, UCM_EVENT_MEM_TYPE_FREE);
SAME(UCM_EVENT_FLAG_NO_INSTALL);
static_assert(sizeof(::ucm_event_t) <= sizeof(ours::ucm_event_t));
PLACES(ucm_event_t, mem_type.address, mem_type.size, mem_type.mem_type);
#if UCX_MINOR >= 22
PLACES(ucm_event_t, mem_type.sys_dev);
EQUAL(UCS_SYS_DEVICE_ID_UNKNOWN, ours::unknown_sys_device);
#endif
SAME_AT(ucs_list_link_t, next);
static_assert(sizeof(::ucm_global_config_t::cuda_hook_modes) >=
              sizeof(uint32_t));
static_assert((1 << UCM_MMAP_HOOK_RELOC) == 2 &&
              (1 << UCM_MMAP_HOOK_BISTRO) == 4);

// ucs.h, log.h
EQUAL(offsetof(::ucs_global_opts_t, log_component.log_level), 0);
EQUAL(UCS_LOG_LEVEL_ERROR, ours::log_level::error);
EQUAL(UCS_LOG_LEVEL_WARN, ours::log_level::warn);
EQUAL(UCS_LOG_LEVEL_INFO, ours::log_level::info);
EQUAL(UCS_LOG_LEVEL_DEBUG, ours::log_level::debug);
EQUAL(UCS_LOG_LEVEL_TRACE, ours::log_level::trace);
static_assert(sizeof(::ucs_memory_info_t) <= 16 * sizeof(uint64_t));

// settings.h
EQUAL(sizeof(::ucs_config_field_t),
      ((UCX_MINOR >= 17) ? 11 : 10) * sizeof(void *));
EQUAL(offsetof(::ucs_config_field_t, dfl_value), 8);
EQUAL(offsetof(::ucs_config_field_t, offset), 24);
EQUAL(offsetof(::ucs_config_field_t, parser.read), 32);
EQUAL(offsetof(::ucs_config_global_list_entry_t, table), 16);
EQUAL(offsetof(::ucs_config_global_list_entry_t, list), 32);
EQUAL(UCS_MEMUNITS_INF, ours::setting_is_inf);
EQUAL(UCS_MEMUNITS_AUTO, ours::setting_is_auto);
EQUAL(UCS_ULUNITS_INF, ours::setting_is_inf);
EQUAL(UCS_CONFIG_OFF, ours::on_off_auto::off);
EQUAL(UCS_CONFIG_ON, ours::on_off_auto::on);
EQUAL(UCS_CONFIG_AUTO, ours::on_off_auto::automatic);

// ucp.h
EQUAL(UCT_ATOMIC_OP_ADD, ours::atomic_operation::add);
EQUAL(UCT_ATOMIC_OP_AND, ours::atomic_operation::bit_and);
EQUAL(UCT_ATOMIC_OP_OR, ours::atomic_operation::bit_or);
EQUAL(UCT_ATOMIC_OP_XOR, ours::atomic_operation::bit_xor);
EQUAL(UCT_ATOMIC_OP_SWAP, ours::atomic_operation::swap);
EQUAL(UCT_ATOMIC_OP_CSWAP, ours::atomic_operation::cswap);

#ifdef UCX_SOURCES
// types.h
SAME(UCT_MD_MEM_DEREG_FIELD_MEMH, UCT_MD_MEM_DEREG_FIELD_FLAGS);
SAME(UCT_MD_MEM_DEREG_FIELD_COMPLETION, UCT_MD_MEM_DEREG_FLAG_INVALIDATE);
SAME(UCT_MD_MKEY_PACK_FIELD_FLAGS, UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA);
SAME(UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO, UCT_MD_FLAG_REG_DMABUF);
SAME(UCT_MD_MEM_REG_FIELD_FLAGS, UCT_MD_MEM_REG_FIELD_DMABUF_FD);
SAME(UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET);
SAME_AT(uct_md_mem_dereg_params_t, field_mask, flags, memh, comp);
SAME_AT(uct_md_mkey_pack_params_t, field_mask, flags);
SAME_AT(uct_md_mem_reg_params_t, field_mask, flags, dmabuf_fd, dmabuf_offset);
SAME_AT(uct_md_t, ops, component);
static_assert(sizeof(::uct_md_mem_reg_params_t) <=
              sizeof(ours::uct_md_mem_reg_params_t));
#if UCX_MINOR >= 18
SAME(UCT_MD_MEM_GVA);
#endif
#if UCX_MINOR >= 22
SAME(UCT_MD_MEM_REG_FIELD_MEM_TYPE);
SAME_AT(uct_md_mem_reg_params_t, mem_type);
#endif

// abi.h, md_override.h
OP(uct_md_ops_t, close, ours::op_close);
OP(uct_md_ops_t, query, ours::op_query);
OP(uct_md_ops_t, mem_reg, ours::op_mem_reg);
OP(uct_md_ops_t, mem_dereg, ours::op_mem_dereg);
OP(uct_md_ops_t, mem_alloc, ours::op_mem_alloc);
OP(uct_md_ops_t, mem_query, ours::op_mem_query);
OP(uct_md_ops_t, mkey_pack, ours::op_mkey_pack);
OP(uct_md_ops_t, detect_memory_type, ours::op_detect);
static_assert(sizeof(::uct_md_ops_t) <= ours::max_md_ops * sizeof(void *));
EQUAL(offsetof(::uct_ib_md_t, pd), ours::pd_offset);
EQUAL(offsetof(::uct_ib_mem_t, lkey), 0);
EQUAL(offsetof(::uct_ib_mem_t, rkey), 4);
EQUAL(offsetof(::uct_ib_mem_t, flags), 8);
#define MD_ATTR(_, member) AT(uct_md_attr_v2_t, member, uct_md_attr_v2, member)
EACH(MD_ATTR, _, field_mask, max_reg, flags, reg_mem_types);
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
EQUAL(UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE |
          UCT_PERF_ATTR_FIELD_REMOTE_MEMORY_TYPE,
      ours::uct_perf_attr_t::field_memory_types);
EQUAL(UCT_PERF_ATTR_FIELD_OPERATION, ours::uct_perf_attr_t::field_operation);
EQUAL(UCT_PERF_ATTR_FIELD_LOCAL_MEMORY_TYPE,
      ours::uct_perf_attr_t::field_local_memory_type);
EQUAL(UCT_PERF_ATTR_FIELD_BANDWIDTH, ours::uct_perf_attr_t::field_bandwidth);
EQUAL(UCT_EP_OP_AM_ZCOPY, ours::UCT_EP_OP_AM_ZCOPY);
SAME_AT(uct_perf_attr_t, field_mask, operation, local_memory_type,
        remote_memory_type, bandwidth);
#if UCX_MINOR >= 19
EQUAL(UCT_PERF_ATTR_FIELD_PATH_BANDWIDTH,
      ours::uct_perf_attr_t::field_path_bandwidth);
SAME_AT(uct_perf_attr_t, path_bandwidth);
#endif
EQUAL(offsetof(::uct_base_iface_t, internal_ops),
      offsetof(ours::uct_iface_t, internal_ops));
EQUAL(offsetof(::uct_iface_internal_ops_t, iface_estimate_perf),
      (UCX_MINOR == 20 || UCX_MINOR >= 22) ? sizeof(void *) : 0);
static_assert(sizeof(::uct_iface_internal_ops_t) <= 32 * sizeof(void *));
SAME_SIZE(uct_component_t);
PLACES(uct_component_t, name, query_md_resources, md_open, rkey_unpack);
PLACES(uct_component_t, rkey_compare, md_config, tl_list, list, md_vfs_init);
SAME_SIZE(uct_tl_t);
static_assert(sizeof(::uct_tl_t::name) <= sizeof(ours::uct_tl_t::name));
PLACES(uct_tl_t, iface_open, config, list);
EQUAL(offsetof(::uct_base_iface_t, md), offsetof(ours::uct_iface_t, md));
#if UCX_MINOR >= 22
AT(uct_md_mem_attr_v2_t, mem_flags, uct_md_mem_attr_t, mem_flags);
#endif

// versions.h
using md_attr = ::uct_md_attr_v2_t;
EQUAL(offsetof(md_attr, component_name), (UCX_MINOR <= 17) ? 104 : 112);
static_assert(ours::is_md_attr_component_name(offsetof(md_attr,
                                                       component_name)));
EQUAL(offsetof(md_attr, component_name) - offsetof(md_attr, detect_mem_types),
      ours::md_attr_types_to_name);
EQUAL(offsetof(md_attr, access_mem_types) - offsetof(md_attr, detect_mem_types),
      16);
#if UCX_MINOR == 16
EQUAL(offsetof(md_attr, detect_mem_types), ours::md_attr_detect_types_1_16);
EQUAL(offsetof(md_attr, local_cpus), ours::md_attr_local_cpus_1_16);
EQUAL(sizeof(md_attr::local_cpus), ours::md_attr_local_cpus_1_16_size);
#endif

// ucm.h
SAME_AT(ucm_event_installer_t, install, list);

// UCP
EQUAL(UCP_FEATURE_AMO, ours::feature_amo);
SAME(UCT_CB_PARAM_FLAG_DESC);
SAME_AT(ucp_am_handler_t, features, cb, proxy_cb);
SAME_AT(ucp_atomic_req_hdr_t, address, length, opcode);
SAME_SIZE(ucp_atomic_req_hdr_t);
#endif // UCX_SOURCES
