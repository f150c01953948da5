// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include "ucm.h"
#include <cstddef>
#include <cstdint>

// UCX's structures and tables that only ucx/ and cuda_copy/ know, the same in
// UCX 1.16 and later (test/build/abi.tap). versions.h has the differences.
namespace ucx_ib_dmabuf {

// Memory domains.

// uct_md_ops_t: operations that have the same index in every UCX. The plug-in
// calls and replaces no others.
enum md_op {
    op_close     = 0,
    op_query     = 1,
    op_mem_alloc = 2,
    op_mem_reg   = 5,
    op_mem_dereg = 6,
    op_mem_query = 7,
    op_mkey_pack = 8,
    op_detect    = 10,
};
constexpr size_t max_md_ops = 16;

constexpr size_t pd_offset = 16; // of uct_ib_md_t

// The start of uct_md_attr_v2_t; UCT passes a complete one.
struct uct_md_attr_v2 {
    uint64_t field_mask;
    uint64_t max_alloc;
    size_t max_reg;
    uint64_t flags;
    uint64_t reg_mem_types;
};

using md_close_function   = void(uct_md_h md);
using md_query_function   = ucs_status_t(uct_md_h md, uct_md_attr_v2 *attr);
using md_mem_reg_function = ucs_status_t(uct_md_h md, void *address,
                                         size_t length,
                                         const uct_md_mem_reg_params_t *params,
                                         uct_mem_h *memh);
using md_mem_dereg_function =
    ucs_status_t(uct_md_h md, const uct_md_mem_dereg_params_t *params);
using md_mkey_pack_function =
    ucs_status_t(uct_md_h md, uct_mem_h memh, void *address, size_t length,
                 const uct_md_mkey_pack_params_t *params, void *buffer);

// Transports and components.

using uct_rkey_t = uintptr_t;

// UCT_IFACE_FLAG_*
enum : uint64_t {
    iface_flag_pending          = 1u << 3,
    iface_flag_put_short        = 1u << 4,
    iface_flag_put_zcopy        = 1u << 6,
    iface_flag_get_short        = 1u << 8,
    iface_flag_get_zcopy        = 1u << 10,
    iface_flag_connect_to_iface = uint64_t{1} << 40,
};

enum : uint64_t {
    UCT_MD_MEM_ATTR_FIELD_MEM_TYPE      = 1u << 0,
    UCT_MD_MEM_ATTR_FIELD_SYS_DEV       = 1u << 1,
    UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS  = 1u << 2,
    UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH  = 1u << 3,
    UCT_MD_MEM_ATTR_FIELD_DMABUF_FD     = 1u << 4,
    UCT_MD_MEM_ATTR_FIELD_DMABUF_OFFSET = 1u << 5,
    UCT_MD_MEM_ATTR_FIELD_MEM_FLAGS     = 1u << 6, // from 1.22
};

enum uct_device_type_t : uint32_t { UCT_DEVICE_TYPE_ACC = 2 };

enum : uint8_t { UCS_MEM_FLAG_REGISTRABLE = 1u << 0 }; // from 1.22

constexpr uint8_t unknown_sys_device = 255; // UCS_SYS_DEVICE_ID_UNKNOWN

// Fields that are not requested need not exist.
struct uct_md_mem_attr_t {
    uint64_t field_mask;
    ucs_memory_type_t mem_type;
    uint8_t sys_dev;
    void *base_address;
    size_t alloc_length;
    int dmabuf_fd;
    size_t dmabuf_offset;
    uint8_t mem_flags;
};

struct uct_iov_t {
    void *buffer;
    size_t length;
    uct_mem_h memh;
    size_t stride;
    unsigned count;
};

struct uct_iface_attr_t {
    struct rma {
        size_t max_short, max_bcopy, min_zcopy, max_zcopy, opt_zcopy_align,
            align_mtu, max_iov;
    } put, get;
    size_t am[8];
    size_t tag[11];
    uint64_t atomics[4];
    uint64_t flags;
    uint64_t event_flags;
    size_t device_addr_len, iface_addr_len, ep_addr_len, max_conn_priv;
    uint64_t listen_sockaddr[16];
    double overhead; // seconds
    double dedicated_bandwidth, shared_bandwidth;
    double latency, latency_growth;
    // More follows.
};

// uct_iface_ops_t, the start of an interface: the operations to replace.
enum iface_op {
    op_put_short   = 0,
    op_put_zcopy   = 2,
    op_get_short   = 3,
    op_get_zcopy   = 5,
    op_iface_query = 46,
};

// uct_base_iface_t
struct uct_iface_t {
    void *ops[50];
    void *internal_ops;
    uct_md_h md;
    // More follows.
};
using uct_iface_h = uct_iface_t *;

enum uct_ep_operation_t : uint32_t { UCT_EP_OP_AM_ZCOPY = 2 };

struct uct_perf_attr_t {
    enum : uint64_t {
        field_operation         = 1u << 0,
        field_local_memory_type = 1u << 1,
        field_memory_types      = 3u << 1, // local and remote
        field_bandwidth         = 1u << 8,
        field_path_bandwidth    = 1u << 9, // from 1.19
    };

    uint64_t field_mask;
    uct_ep_operation_t operation;
    ucs_memory_type_t local_memory_type, remote_memory_type;
    uint8_t local_sys_device, remote_sys_device;
    double send_pre_overhead, send_post_overhead, recv_overhead; // seconds
    struct {
        double dedicated, shared; // bytes a second
    } bandwidth, path_bandwidth;  // the latter from 1.19
    // More follows.
};

struct uct_ep_t {
    uct_iface_h iface;
    // More follows.
};
using uct_ep_h = uct_ep_t *;

// A result other than UCS_OK ends the program.
using uct_error_handler_t = ucs_status_t(void *arg, uct_ep_h ep,
                                         ucs_status_t status);

// uct_iface_params_t
struct uct_iface_params_t {
    enum : uint64_t {
        field_err_handler_arg = 1u << 6,
        field_err_handler     = 1u << 7,
        known_fields          = (1u << 19) - 1, // all fields below
    };
    enum : uint64_t { mode_device = 1u << 0 }; // UCT_IFACE_OPEN_MODE_DEVICE

    uint64_t field_mask;
    uint64_t cpu_mask[16];
    uint64_t open_mode;
    union {
        struct {
            const char *tl_name, *dev_name;
        } device;
        uint64_t sockaddr[5];
    } mode;
    void *stats_root;
    size_t rx_headroom;
    void *err_handler_arg;
    uct_error_handler_t *err_handler;
    uint32_t err_handler_flags;
    void *callbacks[6];
    uint64_t keepalive_interval;
    size_t am_alignment, am_align_offset;
    uint64_t features;
};

// ucs_config_global_list_entry_t
struct config_entry {
    const char *name;
    const char *prefix;
    const void *table;
    size_t size;
    ucs_list_link_t list;
    uint8_t flags;
};

using estimate_perf_function = ucs_status_t(uct_iface_h iface,
                                            uct_perf_attr_t *attr);
using iface_query_function   = ucs_status_t(uct_iface_h iface,
                                            uct_iface_attr_t *attr);
using iface_open_function    = ucs_status_t(uct_md_h md, void *worker,
                                            const void *params, const void *config,
                                            uct_iface_h *iface);
using query_devices_function = ucs_status_t(uct_md_h md, void **devices,
                                            unsigned *count);

struct uct_tl_t {
    char name[16]; // UCX uses 10
    query_devices_function *query_devices;
    iface_open_function *iface_open;
    config_entry config;
    ucs_list_link_t list;
};

using query_md_resources_function = ucs_status_t(uct_component_t *component,
                                                 void **resources,
                                                 unsigned *count);

using md_open_function = ucs_status_t(uct_component_t *component,
                                      const char *name, const void *config,
                                      uct_md_h *md);

struct uct_component_t {
    char name[16];
    query_md_resources_function *query_md_resources;
    md_open_function *md_open;
    void *cm_open;
    void *rkey_unpack;
    void *rkey_ptr;
    void *rkey_release;
    void *rkey_compare;
    config_entry md_config;
    config_entry cm_config;
    ucs_list_link_t tl_list;
    ucs_list_link_t list;
    uint64_t flags;
    void *md_vfs_init;
};

// UCP's messages of atomic operations.

using uct_am_callback_t = ucs_status_t (*)(void *arg, void *data, size_t length,
                                           unsigned flags);

constexpr uint64_t feature_amo = (1u << 2) | (1u << 3); // UCP_FEATURE_AMO
enum : unsigned { UCT_CB_PARAM_FLAG_DESC = 1u << 0 };

struct ucp_am_handler_t {
    uint64_t features;
    uct_am_callback_t cb;
    void *tracer;
    uint32_t flags;
    uct_am_callback_t proxy_cb; // as cb; also counts messages
};

// The message's header, which another host may have sent; operands follow.
struct [[gnu::packed]] ucp_atomic_req_hdr_t {
    uint64_t address;
    uint64_t ep_id;
    uint64_t req_id;
    uint8_t length;
    uint8_t opcode;
};

} // namespace ucx_ib_dmabuf
