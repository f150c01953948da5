// SPDX-License-Identifier: BSD-3-Clause
#include "nics.h"
#include "report.h"
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <uct/ib_dmabuf/path/loopback.h>
#include <unistd.h>

// A function that every libibverbs has.
#define VERB(_name) libibverbs::get().loaded.symbol<decltype(_name)>(#_name)

namespace ucx_ib_dmabuf::info {
namespace {

libibverbs load()
{
    constexpr char name[] = "libibverbs.so.1";
    libibverbs made{};

    if (dlopen(name, RTLD_NOW | RTLD_LOCAL) == nullptr) {
        made.problem = dlerror();
        return made;
    }
    made.loaded     = library(name);
    made.reg_dmabuf = reinterpret_cast<decltype(made.reg_dmabuf)>(
        bound_verb(made.loaded, "ibv_reg_dmabuf_mr"));
    if (look_up_verbs(made.loaded, &made.plug_in) != nullptr) {
        made.problem = "it lacks functions that rdma-core 28 has";
    }
    return made;
}

} // namespace

const libibverbs &libibverbs::get()
{
    static const libibverbs &only = *new libibverbs(load());
    return only;
}

open_device::open_device(ibv_device *device)
    : name_(device->name),
      context_(VERB(ibv_open_device)(device), VERB(ibv_close_device)),
      pd_(context_ ? VERB(ibv_alloc_pd)(context()) : nullptr,
          VERB(ibv_dealloc_pd)),
      error_(errno)
{
}

void *open_device::reg(int fd, size_t offset, uintptr_t address, size_t length)
{
    constexpr int data_direct = 1; // MLX5DV_REG_DMABUF_ACCESS_DATA_DIRECT
    const auto reg_dmabuf     = libibverbs::get().reg_dmabuf;
    const library driver =
        library::around(reinterpret_cast<const void *>(context_->ops.poll_cq));
    const auto reg_direct =
        driver.symbol<ibv_mr *(ibv_pd *, uint64_t, size_t, uint64_t, int, int,
                               int)>("mlx5dv_reg_dmabuf_mr");
    ibv_mr *mr = nullptr;

    errno = EOPNOTSUPP;
    if (has_data_direct(domain()) && (reg_direct != nullptr)) {
        mr = reg_direct(pd(), offset, length, address, fd, all_access,
                        data_direct);
    }
    if ((mr == nullptr) && (reg_dmabuf != nullptr)) {
        mr = reg_dmabuf(pd(), offset, length, address, fd, all_access);
    }
    return mr;
}

namespace {

void check_ports(ibv_context *context, json *out)
{
    const connection_functions &verbs = libibverbs::get().plug_in.connection;
    ibv_device_attr device{};

    if (!verbs.complete() || (verbs.query_device(context, &device) != 0)) {
        return;
    }
    bool is_initialised = false;
    for (unsigned i = 1; i <= device.phys_port_cnt; ++i) {
        ibv_port_attr port{};
        if (verbs.query_port(context, static_cast<uint8_t>(i), &port) != 0) {
            continue;
        }
        if (port.state == IBV_PORT_ACTIVE) {
            const bool is_roce = port.link_layer == IBV_LINK_LAYER_ETHERNET;
            add(out, ok, "port",
                std::to_string(i) + " is active, " +
                    (is_roce ? "RoCE" : "InfiniBand"));
            return;
        }
        is_initialised |=
            (port.state == IBV_PORT_INIT) || (port.state == IBV_PORT_ARMED);
    }
    diagnose(
        out, "port",
        std::string(is_initialised ? "INIT" : "DOWN") + ", none is active",
        {{is_initialised, fails,
          "it has a link, but no subnet manager has set it up",
          "start one, opensm or the switch's; 'sminfo' finds it"},
         {true, fails, "UCX leaves out a NIC without a link",
          "see 'ibstat' or 'rdma link': the cable, the switch, with RoCE the "
          "network interface ('ip link set ... up')"}});
}

void explain_closed(const open_device &device, json *out)
{
    const char *cause =
        (device.context() == nullptr)
            ? "ibv_open_device failed"
            : "ibv_alloc_pd failed, mostly for want of locked memory";

    diagnose(
        out, "open", strerror(device.error()),
        {{device.error() == ENOMEM, fails, cause, "raise 'ulimit -l'"},
         {device.error() == EMFILE, fails, cause, "raise 'ulimit -n'"},
         {true, fails, cause,
          "see the rights on /dev/infiniband/uverbs*; pass /dev/infiniband to "
          "a "
          "container, and allow it where a cgroup decides on devices"}});
}

// Tests, with an invalid fd, whether device, provider and kernel register
// dma-bufs. If they do, the call fails with EBADF, else with EOPNOTSUPP or
// EPROTONOSUPPORT (ibv_reg_dmabuf_mr(3)).
int refusal_of(open_device *device)
{
    void *mr = device->reg(-1, 0, 0, static_cast<size_t>(getpagesize()));

    if (mr != nullptr) { // no provider should accept it
        device->dereg(mr);
        return 0;
    }
    return ((errno == EOPNOTSUPP) || (errno == EPROTONOSUPPORT)) ? errno : 0;
}

void check_import(open_device *device, json *out)
{
    const int refused = refusal_of(device);

    diagnose(
        out, "dma-buf import",
        has_data_direct(device->domain()) ? "yes, with Data Direct" : "yes",
        {{libibverbs::get().reg_dmabuf == nullptr, fails,
          "this libibverbs has no ibv_reg_dmabuf_mr",
          "update rdma-core to 34 or later", "no"},
         {refused != 0, fails,
          device->name() + " registers no dma-bufs (" + strerror(refused) +
              "): its driver needs Linux 5.12 and rdma-core 34 or later, and "
              "must support them",
          "update kernel and rdma-core, see that the kernel has "
          "CONFIG_INFINIBAND_ON_DEMAND_PAGING and CONFIG_DMA_SHARED_BUFFER, or "
          "use a NIC whose driver imports dma-bufs, as mlx5 does",
          "no"}});
}

json check_nic(open_device *device)
{
    json nic                 = make_part(device->name());
    const std::string folder = root + "/sys/class/infiniband/" + device->name();
    const std::string driver = line_of(folder + "/device/uevent", "DRIVER=");
    const std::string firmware = line_of(folder + "/fw_ver");

    add_place(folder + "/device", &nic);
    add(&nic, ok, "driver",
        (driver.empty() ? "unknown" : driver) +
            (firmware.empty() ? "" : ", firmware " + firmware));
    if (device->pd() == nullptr) {
        explain_closed(*device, &nic);
    } else {
        check_ports(device->context(), &nic);
        check_import(device, &nic);
    }
    return nic;
}

void explain_none(json *out)
{
    diagnose(
        out, "RDMA devices", "none",
        {{list(root + "/sys/class/infiniband").empty(), fails,
          "there is none in /sys/class/infiniband",
          "see 'lspci' for an RDMA NIC, and load its RDMA driver, as mlx5_ib"},
         {true, fails, "the kernel has some, but libibverbs takes none",
          "load ib_uverbs, install rdma-core's provider for the NIC "
          "(ibverbs-providers), pass /dev/infiniband to a container",
          "none that can be used"}});
}

} // namespace

std::deque<open_device> check_nics(json *report)
{
    const libibverbs &verbs = libibverbs::get();
    json *machine           = &(*report)["machine"];

    diagnose(
        machine, "libibverbs",
        verbs.loaded ? verbs.loaded.path() : "no libibverbs.so.1",
        {{!verbs.problem.empty(), fails, verbs.problem,
          "install or update rdma-core (libibverbs1, ibverbs-providers)"}});
    if (!verbs.problem.empty()) {
        return {};
    }
    int count = 0;
    std::deque<open_device> opened;
    ibv_device **all = VERB(ibv_get_device_list)(&count);
    for (int i = 0; i < count; ++i) {
        errno = 0; // for open_device::error()
        (*report)["nics"].push_back(check_nic(&opened.emplace_back(all[i])));
    }
    if (all != nullptr) {
        VERB(ibv_free_device_list)(all);
    }
    if (opened.empty()) {
        explain_none(machine);
    }
    return opened;
}

} // namespace ucx_ib_dmabuf::info
