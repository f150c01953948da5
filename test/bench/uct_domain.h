// SPDX-License-Identifier: BSD-3-Clause
#ifndef UCX_IB_DMABUF_TEST_BENCH_UCT_DOMAIN_H_
#define UCX_IB_DMABUF_TEST_BENCH_UCT_DOMAIN_H_

#include <common/gpu.h>
#include <common/ucx.h>
#include <stdexcept>
#include <string>

extern "C" ucs_status_t ucs_module_global_init();
extern "C" ucx_ib_dmabuf::whole_component uct_ib_component;
extern "C" ucs_status_t uct_md_config_read(void *component, const char *env,
                                           const char *file, void **config);
extern "C" void uct_config_release(void *config);

// uct_ib's own memory domain of the fake device, opened with the plug-in in
// place. The functions are called as UCT does, or uct_ib's own are.
class uct_domain {
public:
    struct functions {
        ucx_ib_dmabuf::md_mem_reg_function *reg;
        ucx_ib_dmabuf::md_mem_dereg_function *dereg;
    };

    uct_domain()
    {
        gpu::use();
        void *config = nullptr;
        check(uct_md_config_read(&uct_ib_component, nullptr, nullptr, &config));
        uct_md_h plain = open(config);
        original_      = of(plain);
        close(plain);
        ucs_module_global_init();
        md_ = open(config);
        uct_config_release(config);
        if (decorated().reg == original_.reg) {
            throw std::runtime_error("the plug-in has not taken the domain");
        }
    }
    ~uct_domain() { close(md_); }
    uct_domain(const uct_domain &)            = delete;
    uct_domain &operator=(const uct_domain &) = delete;

    uct_md_h get() const { return md_; }
    functions decorated() const { return of(md_); }
    functions original() const { return original_; }

private:
    template <class Function>
    static Function *op(uct_md_h md, ucx_ib_dmabuf::md_op which)
    {
        return reinterpret_cast<Function *>(md->ops[which]);
    }
    static functions of(uct_md_h md)
    {
        return {op<ucx_ib_dmabuf::md_mem_reg_function>(
                    md, ucx_ib_dmabuf::op_mem_reg),
                op<ucx_ib_dmabuf::md_mem_dereg_function>(
                    md, ucx_ib_dmabuf::op_mem_dereg)};
    }
    static uct_md_h open(const void *config)
    {
        uct_md_h md = nullptr;
        check(uct_ib_component.md_open(
            reinterpret_cast<ucx_ib_dmabuf::uct_component_t *>(
                &uct_ib_component),
            "fake0", config, &md));
        return md;
    }
    static void close(uct_md_h md)
    {
        op<ucx_ib_dmabuf::md_close_function>(md, ucx_ib_dmabuf::op_close)(md);
    }
    static void check(ucs_status_t status)
    {
        if (status != UCS_OK) {
            throw std::runtime_error("UCX failed: " + std::to_string(status));
        }
    }

    functions original_{};
    uct_md_h md_ = nullptr;
};

#endif
