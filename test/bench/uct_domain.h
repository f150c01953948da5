// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_BENCH_UCT_DOMAIN_H_
#define UCX_IB_DMABUF_TEST_BENCH_UCT_DOMAIN_H_

#include <common/gpu.h>
#include <common/ucx_headers.h>
#include <stdexcept>

extern "C" ucs_status_t ucs_module_global_init();

// uct_ib's own memory domain of the fake device, opened with the plug-in in
// place. The functions are called as UCT does, or uct_ib's own are.
class uct_domain {
public:
    struct functions {
        uct_md_mem_reg_func_t reg;
        uct_md_mem_dereg_func_t dereg;
    };

    uct_domain()
    {
        gpu::use();
        uct_md_config_t *config = nullptr;
        check(uct_md_config_read(&uct_ib_component, nullptr, nullptr, &config));
        uct_md_h plain = open(config);
        original_      = of(plain);
        plain->ops->close(plain);
        ucs_module_global_init();
        md_ = open(config);
        uct_config_release(config);
        if (decorated().reg == original_.reg) {
            throw std::runtime_error("the plug-in has not taken the domain");
        }
    }
    ~uct_domain() { md_->ops->close(md_); }
    uct_domain(const uct_domain &)            = delete;
    uct_domain &operator=(const uct_domain &) = delete;

    uct_md_h get() const { return md_; }
    functions decorated() const { return of(md_); }
    functions original() const { return original_; }

private:
    static functions of(uct_md_h md)
    {
        return {md->ops->mem_reg, md->ops->mem_dereg};
    }
    static uct_md_h open(const uct_md_config_t *config)
    {
        uct_md_h md = nullptr;
        check(
            uct_ib_component.md_open(&uct_ib_component, "fake0", config, &md));
        return md;
    }
    static void check(ucs_status_t status)
    {
        if (status != UCS_OK) {
            throw std::runtime_error(ucs_status_string(status));
        }
    }

    functions original_{};
    uct_md_h md_ = nullptr;
};

#endif
