// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fake_ib.h"
#include <common/gpu.h>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <uct/ib_dmabuf/stats/live_page.h>

extern "C" ucs_status_t ucs_module_global_init();

// UCP's parameters for packing a key, and for a deregistration that invalidates
// the handle's keys.
inline ucx_ib_dmabuf::uct_md_mkey_pack_params_t packing(unsigned flags)
{
    return {ucx_ib_dmabuf::UCT_MD_MKEY_PACK_FIELD_FLAGS, flags};
}

inline ucx_ib_dmabuf::uct_md_mem_dereg_params_t
invalidating(void *memh, ucx_ib_dmabuf::uct_completion_t *told)
{
    using namespace ucx_ib_dmabuf;

    return {UCT_MD_MEM_DEREG_FIELD_MEMH | UCT_MD_MEM_DEREG_FIELD_FLAGS |
                UCT_MD_MEM_DEREG_FIELD_COMPLETION,
            UCT_MD_MEM_DEREG_FLAG_INVALIDATE, memh, told};
}

// A completion that counts its calls.
struct completion : ucx_ib_dmabuf::uct_completion_t {
    completion() : uct_completion_t{}
    {
        count  = 1;
        status = ucx_ib_dmabuf::UCS_OK;
        func   = [](ucx_ib_dmabuf::uct_completion_t *self) {
            ++static_cast<completion *>(self)->told;
        };
    }

    unsigned told = 0;
};

namespace ucx_ib_dmabuf::test {

// A memory domain of the fake uct_ib, opened with the plug-in in place. Calls
// its operations as UCT does.
class fake_domain {
public:
    explicit fake_domain(const char *device = "fake0",
                         const void *config = nullptr)
    {
        ucs_module_global_init();
        md_ = open(device, config);
    }
    ~fake_domain() { close(md_); }
    fake_domain(const fake_domain &)            = delete;
    fake_domain &operator=(const fake_domain &) = delete;

    static uct_md_h open(const char *device, const void *config = nullptr)
    {
        uct_md_h md = nullptr;
        if (uct_ib_component.md_open(&uct_ib_component, device, config, &md) !=
            UCS_OK) {
            throw std::runtime_error("md_open failed");
        }
        return md;
    }
    static void close(uct_md_h md) { op<md_close_function>(md, op_close)(md); }

    uct_md_h get() const { return md_; }
    uct_md_attr_v2 query()
    {
        uct_md_attr_v2 attr{};
        EXPECT_EQ(UCS_OK, op<md_query_function>(md_, op_query)(md_, &attr));
        return attr;
    }
    bool takes_cuda()
    {
        return (query().reg_mem_types & (1u << UCS_MEMORY_TYPE_CUDA)) != 0;
    }
    ucs_status_t reg(uintptr_t address, size_t length, uct_mem_h *memh,
                     unsigned flags = ucx::access_all)
    {
        uct_md_mem_reg_params_t params{};
        params.field_mask = UCT_MD_MEM_REG_FIELD_FLAGS;
        params.flags      = flags;
        return reg(address, length, memh, params);
    }
    ucs_status_t reg(uintptr_t address, size_t length, uct_mem_h *memh,
                     const uct_md_mem_reg_params_t &params)
    {
        return op<md_mem_reg_function>(md_, op_mem_reg)(
            md_, reinterpret_cast<void *>(address), length, &params, memh);
    }
    // The same, but throws on failure.
    uct_mem_h reg(uintptr_t address, size_t length)
    {
        uct_mem_h memh = nullptr;
        if (reg(address, length, &memh) != UCS_OK) {
            throw std::runtime_error("mem_reg failed");
        }
        return memh;
    }
    ucs_status_t dereg(uct_mem_h memh)
    {
        uct_md_mem_dereg_params_t params{};
        params.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH;
        params.memh       = memh;
        return dereg(params);
    }
    ucs_status_t dereg(const uct_md_mem_dereg_params_t &params)
    {
        return op<md_mem_dereg_function>(md_, op_mem_dereg)(md_, &params);
    }
    ucs_status_t invalidate(uct_mem_h memh, uct_completion_t *completion)
    {
        return dereg(invalidating(memh, completion));
    }
    // Packs a key for the whole handle.
    ucs_status_t pack(uct_mem_h memh, unsigned flags, uint32_t *rkey)
    {
        return pack(memh, packing(flags), rkey);
    }
    ucs_status_t pack(uct_mem_h memh, const uct_md_mkey_pack_params_t &params,
                      uint32_t *rkey, uintptr_t address = 0,
                      size_t length = SIZE_MAX)
    {
        uint64_t packed           = 0;
        const ucs_status_t status = op<md_mkey_pack_function>(
            md_, op_mkey_pack)(md_, memh, reinterpret_cast<void *>(address),
                               length, &params, &packed);
        *rkey = static_cast<uint32_t>(packed);
        return status;
    }

private:
    template <class Function>
    static Function *op(uct_md_h md, md_op which)
    {
        return reinterpret_cast<Function *>(md->ops[which]);
    }

    uct_md_h md_ = nullptr;
};

// The start of a test: a GPU in use, an open domain, and no registrations.
// UCX's cache of types is off, so each registration queries the driver.
inline std::unique_ptr<fake_domain> first_fake_domain()
{
    ucx::use_memtype_cache(false);
    gpu::use();
    fake_ib::now = {};
    return std::make_unique<fake_domain>();
}

// A test with an open domain. In the end nothing is left of it.
class domain_test : public ::testing::Test {
protected:
    // Other processes that ask for room would evict what is to be seen.
    domain_test() { forget_live(); }
    void TearDown() override
    {
        fake_ib::now.fail_verbs = 0;
        md_.reset();
        EXPECT_TRUE(fake_ib::now.regions.empty());
        EXPECT_EQ(0u, fake_ib::now.host);
        EXPECT_EQ(0u, fake_ib::now.domains);
    }

    std::unique_ptr<fake_domain> md_ = first_fake_domain();
};

} // namespace ucx_ib_dmabuf::test

using ucx_ib_dmabuf::test::domain_test;
using ucx_ib_dmabuf::test::fake_domain;
using ucx_ib_dmabuf::test::first_fake_domain;
