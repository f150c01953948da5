// SPDX-License-Identifier: BSD-3-Clause
//
// uct_ib registers a dma-buf of UCT's caller as it is, also for GPU memory,
// which the plug-in would otherwise export itself. Uses the API of UCT from
// 1.16 on. Prints "ok - NAME" or "not ok - NAME: REASON".
#include <common/gpu.h>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <lab/soft_roce.h>
#include <uct/api/uct.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {
namespace {

constexpr size_t length = 1 << 20;

// uct_md_mem_reg_params_t with all fields of 1.22.
struct reg_params {
    uint64_t field_mask = 0;
    uint64_t flags      = UCT_MD_MEM_ACCESS_RMA | UCT_MD_MEM_FLAG_HIDE_ERRORS;
    int fd              = -1;
    size_t offset       = 0;
    int memory_type     = 0;
};
constexpr uint64_t flags_field = 1, fd_field = 2, memory_type_field = 8;
constexpr int rocm = 3; // UCS_MEMORY_TYPE_ROCM

using reg_function = ucs_status_t(uct_md_h, void *, size_t, const reg_params *,
                                  uct_mem_h *);

void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        throw std::runtime_error(std::string(what) + ": " +
                                 ucs_status_string(status));
    }
}

uct_md_h open_md()
{
    uct_component_h *all = nullptr;
    unsigned count       = 0;
    uct_md_h md          = nullptr;

    check(uct_query_components(&all, &count), "uct_query_components");
    for (unsigned i = 0; i < count && md == nullptr; ++i) {
        uct_component_attr_t attr = {};
        attr.field_mask           = UCT_COMPONENT_ATTR_FIELD_NAME;
        check(uct_component_query(all[i], &attr), "uct_component_query");
        if (strcmp(attr.name, "ib") == 0) {
            uct_md_config_t *config = nullptr;
            check(uct_md_config_read(all[i], nullptr, nullptr, &config),
                  "uct_md_config_read");
            const auto status = uct_md_open(all[i], "rxe0", config, &md);
            uct_config_release(config);
            check(status, "uct_md_open");
        }
    }
    uct_release_component_list(all);
    return md;
}

uint64_t exports()
{
    return gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls")(
        "cuMemGetHandleForAddressRange");
}

class domain_test {
public:
    domain_test() : md_(open_md()) {}
    ~domain_test() { uct_md_close(md_); }
    domain_test(const domain_test &)            = delete;
    domain_test &operator=(const domain_test &) = delete;

    // Checks whether the registration succeeds, and the number of exports that
    // the GPU makes meanwhile.
    void expect(const char *name, void *address, reg_params params,
                bool succeeds, uint64_t wanted_exports)
    {
        const uint64_t before = exports();
        uct_mem_h handle      = nullptr;
        params.field_mask |= flags_field;
        const ucs_status_t status =
            reg_(md_, address, length, &params, &handle);
        const uint64_t found = exports() - before;
        if (status == UCS_OK) {
            check(uct_md_mem_dereg(md_, handle), "uct_md_mem_dereg");
        }
        const bool good =
            (status == UCS_OK) == succeeds && found == wanted_exports;
        printf("%sok - %s", good ? "" : "not ", name);
        if (!good) {
            printf(": %s, %zu exports", ucs_status_string(status), found);
        }
        printf("\n");
    }

private:
    uct_md_h md_;
    reg_function *reg_ = reinterpret_cast<reg_function *>(
        dlsym(RTLD_DEFAULT, "uct_md_mem_reg_v2"));
};

void run()
{
    gpu::use();
    domain_test md;
    dma_buf own(length);
    gpu::buffer buffer(length);
    reg_params params;

    md.expect("GPU memory without an fd is exported once", buffer.pointer(),
              params, true, 1);
    params.field_mask = fd_field;
    params.fd         = own.fd();
    md.expect("with an fd it is registered by that", buffer.pointer(), params,
              true, 0);
    md.expect("also other memory", own.bytes(), params, true, 0);
    params.field_mask |= memory_type_field;
    params.memory_type = rocm;
    md.expect("another vendor's, too", own.bytes(), params, true, 0);
    params.fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    md.expect("an fd that is no dma-buf is refused for GPU memory",
              buffer.pointer(), params, false, 0);
    close(params.fd);
    params.field_mask = memory_type_field;
    md.expect("another vendor's memory without an fd is uct_ib's", own.bytes(),
              params, true, 0);
}

} // namespace
} // namespace ucx_ib_dmabuf::test

int main()
{
    try {
        ucx_ib_dmabuf::test::run();
        return 0;
    } catch (const std::exception &failure) {
        fprintf(stderr, "%s\n", failure.what());
        return 1;
    }
}
