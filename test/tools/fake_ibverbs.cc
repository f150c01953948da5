// SPDX-License-Identifier: BSD-3-Clause
//
// A libibverbs.so.1 of simulated NICs, as far as ucx_dmabuf_info uses it:
//   INFO_NICS="NAME[:WORD...] ..."
// An unknown word aborts the program.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>
#include <verbs_sim/verbs_sim.h>

namespace {

struct fake {
    std::string name;
    verbs_sim::platform on{};
    bool opens = true, has_pd = true, is_ethernet = false;
    ibv_port_state port = IBV_PORT_ACTIVE; // of port 2; port 1 is always down
    std::unique_ptr<verbs_sim::nic> sim{};

    ibv_context *context() const { return sim->pd().verbs_pd->context; }
    ibv_device *device() const { return context()->device; }
};

std::vector<fake> &nics()
{
    static auto &all = *new std::vector<fake>;
    return all;
}

int poll_cq(ibv_cq *, int, ibv_wc *)
{
    return -1;
}

// What each word changes.
const std::map<std::string, void (*)(fake *)> words{
    {"old-kernel", [](fake *made) { made->on.kernel = 511; }},
    {"imports-none", [](fake *made) { made->on.imports = false; }},
    {"data-direct", [](fake *made) { made->on.data_direct = true; }},
    {"closed", [](fake *made) { made->opens = false; }},
    {"no-pd", [](fake *made) { made->has_pd = false; }},
    {"down", [](fake *made) { made->port = IBV_PORT_DOWN; }},
    {"init", [](fake *made) { made->port = IBV_PORT_INIT; }},
    {"ethernet", [](fake *made) { made->is_ethernet = true; }}};

void make(const std::string &text)
{
    std::istringstream parts(text);
    std::string word;
    fake made;

    std::getline(parts, made.name, ':');
    while (std::getline(parts, word, ':')) {
        words.at(word)(&made);
    }
    made.sim = std::make_unique<verbs_sim::nic>(made.name.c_str(), made.on);
    made.context()->ops.poll_cq = poll_cq; // this library is its libmlx5, too
    nics().push_back(std::move(made));
}

const fake &of(const ibv_context *context)
{
    for (const fake &each : nics()) {
        if (each.context() == context) {
            return each;
        }
    }
    abort();
}

} // namespace

// verbs.h has macros of these names.
#undef ibv_query_port
#undef ibv_reg_mr_iova
#define FAKE extern "C" __attribute__((visibility("default")))

FAKE ibv_device **ibv_get_device_list(int *count)
{
    const char *text = getenv("INFO_NICS");
    std::istringstream all(text == nullptr ? "" : text);
    std::string one;

    nics().clear();
    while (all >> one) {
        make(one);
    }
    auto **list = static_cast<ibv_device **>(
        calloc(nics().size() + 1, sizeof(ibv_device *)));
    for (size_t i = 0; i < nics().size(); ++i) {
        list[i] = nics()[i].device();
    }
    *count = static_cast<int>(nics().size());
    return list;
}

FAKE ibv_context *ibv_open_device(ibv_device *device)
{
    for (const fake &each : nics()) {
        if ((each.device() == device) && each.opens) {
            return each.context();
        }
    }
    errno = EACCES;
    return nullptr;
}

FAKE ibv_pd *ibv_alloc_pd(ibv_context *context)
{
    errno = ENOMEM;
    return of(context).has_pd ? of(context).sim->pd().verbs_pd : nullptr;
}

FAKE int ibv_query_device(ibv_context *, ibv_device_attr *attr)
{
    memset(attr, 0, sizeof(*attr));
    attr->phys_port_cnt = 2;
    return 0;
}

FAKE int ibv_query_port(ibv_context *context, uint8_t port,
                        _compat_ibv_port_attr *attr)
{
    auto *out       = reinterpret_cast<ibv_port_attr *>(attr);
    out->state      = (port == 2) ? of(context).port : IBV_PORT_DOWN;
    out->link_layer = of(context).is_ethernet ? IBV_LINK_LAYER_ETHERNET
                                              : IBV_LINK_LAYER_INFINIBAND;
    return 0;
}

// clang-format off
FAKE void ibv_free_device_list(ibv_device **list) { free(list); }
FAKE int ibv_close_device(ibv_context *) { return 0; }
FAKE int ibv_dealloc_pd(ibv_pd *) { return 0; }
FAKE ibv_mr *ibv_reg_mr_iova(ibv_pd *, void *, size_t, uint64_t, int)
{ errno = ENOMEM; return nullptr; }
FAKE int ibv_dereg_mr(ibv_mr *mr) { return of(mr->context).sim->pd().verbs->dereg(mr); }
FAKE ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                              int access)
{ return of(pd->context).sim->reg_dmabuf_mr(offset, length, iova, fd, access); }
FAKE bool mlx5dv_is_supported(ibv_device *device)
{ return nics().front().sim->pd().mlx5.is_supported(device); }
FAKE int mlx5dv_get_data_direct_sysfs_path(ibv_context *context, char *path, size_t size)
{ return of(context).sim->pd().mlx5.get_data_direct_sysfs_path(context, path, size); }
FAKE ibv_mr *mlx5dv_reg_dmabuf_mr(ibv_pd *, uint64_t, size_t, uint64_t, int, int, int)
{ errno = EOPNOTSUPP; return nullptr; }
// clang-format on

// For the loopback, which these NICs never come to.
#define FAKE_UNUSED(_result, _name, ...)                                       \
    FAKE _result _name(__VA_ARGS__)                                            \
    {                                                                          \
        abort();                                                               \
    }
FAKE_UNUSED(int, _ibv_query_gid_ex, ibv_context *, uint32_t, uint32_t,
            ibv_gid_entry *, uint32_t, size_t)
FAKE_UNUSED(int, ibv_query_pkey, ibv_context *, uint8_t, int, __be16 *)
FAKE_UNUSED(ibv_cq *, ibv_create_cq, ibv_context *, int, void *,
            ibv_comp_channel *, int)
FAKE_UNUSED(int, ibv_destroy_cq, ibv_cq *)
FAKE_UNUSED(ibv_qp *, ibv_create_qp, ibv_pd *, ibv_qp_init_attr *)
FAKE_UNUSED(int, ibv_modify_qp, ibv_qp *, ibv_qp_attr *, int)
FAKE_UNUSED(int, ibv_destroy_qp, ibv_qp *)
FAKE_UNUSED(const char *, ibv_wc_status_str, ibv_wc_status)
