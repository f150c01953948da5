// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "types.h"
#include "ucm.h"
#include <cstddef>
#include <cstdint>

// The parts of transports that are the same in every UCX. test/build/abi.cc
// compares them with UCX's headers.
namespace ucx_ib_dmabuf {

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
    UCT_MD_FLAG_REG = 1u << 1,
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

struct uct_perf_attr_t {
    enum : uint64_t { field_memory_types = 3u << 1 };

    uint64_t field_mask;
    uint32_t operation;
    ucs_memory_type_t local_memory_type, remote_memory_type;
    // More follows.
};

struct uct_ep_t {
    uct_iface_h iface;
    // More follows.
};
using uct_ep_h = uct_ep_t *;

// Called when an endpoint of an interface fails. A result other than UCS_OK
// ends the program.
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

// uct_component_t
struct whole_component {
    char name[16];
    query_md_resources_function *query_md_resources;
    decltype(uct_component_t::md_open) md_open;
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

} // namespace ucx_ib_dmabuf
