// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// Types that are the same in every UCX, under UCX's own names, in our
// namespace. test/build/abi.tap compares them with UCX's headers.
namespace ucx_ib_dmabuf {

enum ucs_status_t : int8_t {
    UCS_OK                = 0,
    UCS_INPROGRESS        = 1,
    UCS_ERR_NO_RESOURCE   = -2,
    UCS_ERR_IO_ERROR      = -3,
    UCS_ERR_NO_MEMORY     = -4,
    UCS_ERR_INVALID_PARAM = -5,
    UCS_ERR_INVALID_ADDR  = -7,
    UCS_ERR_NO_ELEM       = -12,
    UCS_ERR_NO_DEVICE     = -14,
    UCS_ERR_BUSY          = -15,
    UCS_ERR_CANCELED      = -16,
    UCS_ERR_EXCEEDS_LIMIT = -21,
    UCS_ERR_UNSUPPORTED   = -22,
};

// The types that every UCX has. UCX's value for "unknown" is read at run time
// (ucm_functions::unknown_type).
enum ucs_memory_type_t : uint32_t {
    UCS_MEMORY_TYPE_HOST         = 0,
    UCS_MEMORY_TYPE_CUDA         = 1,
    UCS_MEMORY_TYPE_CUDA_MANAGED = 2,
    UCS_MEMORY_TYPE_ROCM         = 3,
};

enum : uint64_t {
    UCT_MD_MEM_FLAG_HIDE_ERRORS     = 1u << 3,
    UCT_MD_MEM_ACCESS_REMOTE_PUT    = 1u << 5,
    UCT_MD_MEM_ACCESS_REMOTE_GET    = 1u << 6,
    UCT_MD_MEM_ACCESS_REMOTE_ATOMIC = 1u << 7,
    UCT_MD_MEM_ACCESS_LOCAL_READ    = 1u << 8,
    UCT_MD_MEM_ACCESS_LOCAL_WRITE   = 1u << 9,
    UCT_MD_MEM_GVA                  = 1u << 11, // from 1.18
    UCT_MD_MEM_ACCESS_RMA =
        UCT_MD_MEM_ACCESS_REMOTE_PUT | UCT_MD_MEM_ACCESS_REMOTE_GET |
        UCT_MD_MEM_ACCESS_LOCAL_READ | UCT_MD_MEM_ACCESS_LOCAL_WRITE,
};

enum : uint64_t {
    UCT_MD_FLAG_REG        = 1u << 1,
    UCT_MD_FLAG_REG_DMABUF = 1u << 10,
};

enum : uint64_t {
    UCT_MD_MEM_DEREG_FIELD_MEMH       = 1u << 0,
    UCT_MD_MEM_DEREG_FIELD_FLAGS      = 1u << 1,
    UCT_MD_MEM_DEREG_FIELD_COMPLETION = 1u << 2,

    UCT_MD_MKEY_PACK_FIELD_FLAGS = 1u << 0,
};

enum : unsigned {
    UCT_MD_MEM_DEREG_FLAG_INVALIDATE = 1u << 0,

    UCT_MD_MKEY_PACK_FLAG_INVALIDATE_RMA = 1u << 0,
    UCT_MD_MKEY_PACK_FLAG_INVALIDATE_AMO = 1u << 1,
};

using uct_mem_h = void *;

struct uct_completion_t {
    void (*func)(uct_completion_t *self);
    int count;
    ucs_status_t status;
};

// uct_invoke_completion()
inline void invoke_completion(uct_completion_t *completion)
{
    if (--completion->count == 0) {
        completion->func(completion);
    }
}

enum : uint64_t {
    UCT_MD_MEM_REG_FIELD_FLAGS         = 1u << 0,
    UCT_MD_MEM_REG_FIELD_DMABUF_FD     = 1u << 1,
    UCT_MD_MEM_REG_FIELD_DMABUF_OFFSET = 1u << 2,
    UCT_MD_MEM_REG_FIELD_MEM_TYPE      = 1u << 3, // from 1.22
};

struct uct_md_mem_reg_params_t {
    uint64_t field_mask;
    uint64_t flags;
    int dmabuf_fd;
    size_t dmabuf_offset;
    ucs_memory_type_t mem_type; // from 1.22; ignored before
};

struct uct_md_mem_dereg_params_t {
    uint64_t field_mask;
    unsigned flags;
    uct_mem_h memh;
    uct_completion_t *comp;
};

struct uct_md_mkey_pack_params_t {
    uint64_t field_mask;
    unsigned flags;
};

struct uct_component_t;

struct uct_md_t {
    void **ops; // uct_md_ops_t: functions; the order differs (abi.h)
    uct_component_t *component;
};
using uct_md_h = uct_md_t *;

} // namespace ucx_ib_dmabuf
