// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_MD_FAKE_DOMAIN_H_
#define TEST_GTEST_MD_FAKE_DOMAIN_H_

#include "fake_ib.h"
#include "handle_params.h"
#include <common/gpu.h>
#include <memory>
#include <stdexcept>
extern "C" {
#include <ucs/config/global_opts.h>
}

extern "C" ucs_status_t ucs_module_global_init();

// In a library of its own, as UCP is: whose function of that name registers for
// one operation.
extern "C" ucs_status_t ucp_mem_rereg_mds(uct_md_h md, void *address,
                                          size_t length, unsigned flags,
                                          uct_mem_h *memh);

// A memory domain of the fake uct_ib, opened with the plug-in in place. Its
// operations are called as UCT does.
class fake_domain {
public:
    explicit fake_domain(const char *device = "fake0")
    {
        ucs_module_global_init();
        if (uct_ib_component.md_open(&uct_ib_component, device, nullptr,
                                     &md_) != UCS_OK) {
            throw std::runtime_error("md_open failed");
        }
    }
    ~fake_domain() { md_->ops->close(md_); }
    fake_domain(const fake_domain &)            = delete;
    fake_domain &operator=(const fake_domain &) = delete;

    uct_md_h get() const { return md_; }
    bool takes_cuda()
    {
        uct_md_attr_t attr;
        return (md_->ops->query(md_, &attr) == UCS_OK) &&
               ((attr.cap.reg_mem_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0);
    }
    ucs_status_t reg(uintptr_t address, size_t length, uct_mem_h *memh,
                     unsigned flags = UCT_MD_MEM_ACCESS_ALL)
    {
        return ucp_mem_rereg_mds(md_, reinterpret_cast<void *>(address), length,
                                 flags, memh);
    }
    // The same, which must not fail.
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
        return md_->ops->mem_dereg(md_, &params);
    }
    ucs_status_t invalidate(uct_mem_h memh, uct_completion_t *completion)
    {
        return dereg(invalidating(memh, completion));
    }
    ucs_status_t pack(uct_mem_h memh, unsigned flags, uint32_t *rkey)
    {
        const auto params   = packing(flags);
        uint64_t packed     = 0;
        ucs_status_t status = md_->ops->mkey_pack(md_, memh, &params, &packed);
        *rkey               = static_cast<uint32_t>(packed);
        return status;
    }

private:
    uct_md_h md_ = nullptr;
};

// What a test begins with: a GPU in use, a domain, and nothing registered. Each
// registration asks what is at the address, as UCX's cache of types is off.
inline std::unique_ptr<fake_domain> first_fake_domain()
{
    ucs_global_opts.enable_memtype_cache = UCS_NO;
    gpu::use();
    fake_ib::now = {};
    return std::make_unique<fake_domain>();
}

#endif
