// SPDX-License-Identifier: BSD-3-Clause
//
// Instances of UCX in one process, opened in the order of the arguments, which
// name their libucp. Each sends GPU memory to itself over the NIC, in turns
// with the others, from addresses that held other memory before.
#include <common/gpu.h>
#include <cstdio>
#include <deque>
#include <dlfcn.h>
#include <random>
#include <stdexcept>
#include <string>
#include <ucp/api/ucp.h>
#include <vector>

namespace {

void check(ucs_status_t status, const char *what)
{
    if (status != UCS_OK) {
        throw std::runtime_error(std::string(what) + ": status " +
                                 std::to_string(status));
    }
}

// The function of the instance in `library_`.
#define UCP(_name) find(_name, #_name)

// An instance, of which only its own functions are called.
class ucx_copy {
public:
    explicit ucx_copy(const char *path)
        : library_(dlopen(path, RTLD_NOW | RTLD_LOCAL))
    {
        ucp_config_t *config             = nullptr;
        ucp_address_t *address           = nullptr;
        size_t length                    = 0;
        ucp_params_t wanted              = {};
        const ucp_worker_params_t worker = {};
        ucp_ep_params_t ep               = {};

        if (library_ == nullptr) {
            throw std::runtime_error(dlerror());
        }
        wanted.field_mask = UCP_PARAM_FIELD_FEATURES;
        wanted.features   = UCP_FEATURE_TAG;
        check(UCP(ucp_config_read)(nullptr, nullptr, &config), "a read");
        // ucp_init() of a UCX older than the headers would log a warning.
        check(UCP(ucp_init_version)(1, 16, &wanted, config, &context_), "init");
        UCP(ucp_config_release)(config);
        check(UCP(ucp_worker_create)(context_, &worker, &worker_), "a worker");
        check(UCP(ucp_worker_get_address)(worker_, &address, &length),
              "an address");
        ep.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        ep.address    = address;
        check(UCP(ucp_ep_create)(worker_, &ep, &ep_), "an endpoint");
        UCP(ucp_worker_release_address)(worker_, address);
    }
    ~ucx_copy()
    {
        const ucp_request_param_t none = {};
        wait(UCP(ucp_ep_close_nbx)(ep_, &none));
        UCP(ucp_worker_destroy)(worker_);
        UCP(ucp_cleanup)(context_);
    }
    ucx_copy(const ucx_copy &)            = delete;
    ucx_copy &operator=(const ucx_copy &) = delete;

    void move(void *to, const void *from, size_t length)
    {
        const ucp_request_param_t none = {};
        const ucs_status_ptr_t received =
            UCP(ucp_tag_recv_nbx)(worker_, to, length, 1, UINT64_MAX, &none);
        const ucs_status_ptr_t sent =
            UCP(ucp_tag_send_nbx)(ep_, from, length, 1, &none);
        check(wait(sent), "a send");
        check(wait(received), "a receive");
    }

private:
    template <class Function>
    Function *find(Function *, const char *name) const
    {
        void *const found = dlsym(library_, name);
        if (found == nullptr) {
            throw std::runtime_error(dlerror());
        }
        return reinterpret_cast<Function *>(found);
    }

    ucs_status_t wait(ucs_status_ptr_t request)
    {
        if (!UCS_PTR_IS_PTR(request)) {
            return UCS_PTR_RAW_STATUS(request);
        }
        ucs_status_t status;
        while ((status = UCP(ucp_request_check_status)(request)) ==
               UCS_INPROGRESS) {
            UCP(ucp_worker_progress)(worker_);
        }
        UCP(ucp_request_free)(request);
        return status;
    }

    void *const library_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_   = nullptr;
    ucp_ep_h ep_           = nullptr;
};

// Whether each instance moves the same memory, with bytes of its own.
bool move_by_each(std::deque<ucx_copy> &copies, size_t length, gpu::memory kind,
                  std::mt19937_64 &random)
{
    const gpu::buffer from(length, kind), to(length, kind);
    std::vector<uint8_t> sent(length), got(length);

    for (ucx_copy &each : copies) {
        for (uint8_t &byte : sent) {
            byte = static_cast<uint8_t>(random());
        }
        GPU_CALL(cuMemcpyHtoD, from.address(), sent.data(), length);
        each.move(to.pointer(), from.pointer(), length);
        GPU_CALL(cuMemcpyDtoH, got.data(), to.address(), length);
        if (got != sent) {
            return false;
        }
    }
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        std::deque<ucx_copy> copies;
        std::mt19937_64 random(1);
        gpu::use();
        for (int i = 1; i < argc; ++i) {
            copies.emplace_back(argv[i]);
        }
        for (const gpu::memory kind :
             {gpu::memory::device, gpu::memory::vmm, gpu::memory::pool}) {
            bool good = true;
            for (int round = 0; round < 4; ++round) {
                for (const size_t length : {8, 8192, 1 << 20}) {
                    good = good && move_by_each(copies, length, kind, random);
                }
            }
            printf("%sok - %s memory\n", good ? "" : "not ",
                   gpu::name_of(kind));
            fflush(stdout);
        }
        return 0;
    } catch (const std::exception &failed) {
        fprintf(stderr, "%s\n", failed.what());
        return 1;
    }
}
