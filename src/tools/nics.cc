// SPDX-License-Identifier: BSD-3-Clause
#include "devices.h"
#include "look.h"
#include <cerrno>
#include <cstring>
#include <uct/ib_dmabuf/path/reg_methods.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::info {
namespace {

void look_at_driver(const tree &files, part *out)
{
    const std::string folder   = "/sys/class/infiniband/" + out->name;
    const std::string driver   = files.target(folder + "/device/driver");
    const std::string firmware = files.first_line(folder + "/fw_ver");

    out->ok("driver", (driver.empty() ? "unknown" : driver) +
                          (firmware.empty() ? "" : ", firmware " + firmware));
}

void look_at_ports(ibv_context *context, const connection_functions &verbs,
                   part *out)
{
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
            out->ok("port", std::to_string(i) + " is active, " +
                                (port.link_layer == IBV_LINK_LAYER_ETHERNET
                                     ? "RoCE"
                                     : "InfiniBand"));
            return;
        }
        is_initialised |=
            (port.state == IBV_PORT_INIT) || (port.state == IBV_PORT_ARMED);
    }
    if (is_initialised) {
        out->fails("port", "INIT, none is active",
                   "it has a link, but no subnet manager has set it up",
                   "start one, opensm or the switch's; 'sminfo' finds it");
    } else {
        out->fails("port", "DOWN, none is active",
                   "a NIC without a link carries nothing, and UCX leaves it "
                   "out",
                   "see 'ibstat' or 'rdma link': the cable, the switch, with "
                   "RoCE the network interface ('ip link set ... up')");
    }
}

const char *remedy_of_open(int error)
{
    switch (error) {
    case ENOMEM:
        return "raise 'ulimit -l'";
    case EMFILE:
        return "raise 'ulimit -n'";
    default:
        return "see the rights on /dev/infiniband/uverbs*; pass "
               "/dev/infiniband "
               "to a container, and allow it where a cgroup decides on devices";
    }
}

// Tests, with an invalid fd, whether device, provider and kernel register
// dma-bufs. If they do, the call fails with EBADF, else with EOPNOTSUPP or
// EPROTONOSUPPORT (ibv_reg_dmabuf_mr(3)).
int refusal_of(const libibverbs &verbs, ibv_pd *pd)
{
    errno      = 0;
    ibv_mr *mr = verbs.reg_dmabuf(pd, 0, static_cast<size_t>(getpagesize()), 0,
                                  -1, IBV_ACCESS_LOCAL_WRITE);
    if (mr != nullptr) { // no provider should accept it
        verbs.plug_in.dereg(mr);
        return 0;
    }
    return ((errno == EOPNOTSUPP) || (errno == EPROTONOSUPPORT)) ? errno : 0;
}

void look_at_dmabufs(const libibverbs &verbs, const open_device &device,
                     part *out)
{
    const int refused =
        (verbs.reg_dmabuf == nullptr) ? 0 : refusal_of(verbs, device.pd());

    if (verbs.reg_dmabuf == nullptr) {
        out->fails("dma-buf import", "no",
                   "this libibverbs has no ibv_reg_dmabuf_mr",
                   "update rdma-core to 34 or later");
    } else if (refused != 0) {
        out->fails("dma-buf import", "no",
                   out->name + " registers no dma-bufs (" + strerror(refused) +
                       "): its driver needs Linux 5.12 and rdma-core 34 or "
                       "later, and must support them",
                   "update kernel and rdma-core, see that the kernel has "
                   "CONFIG_INFINIBAND_ON_DEMAND_PAGING and "
                   "CONFIG_DMA_SHARED_BUFFER, or use a NIC whose driver "
                   "imports dma-bufs, as mlx5 does");
    } else {
        const bool direct = has_data_direct(device.domain());
        out->ok("dma-buf import", direct ? "yes, with Data Direct" : "yes");
    }
}

void look_at_nic(const tree &files, const libibverbs &verbs, ibv_device *device,
                 report *out)
{
    part nic{device->name};
    nic.place = files.place("/sys/class/infiniband/" + nic.name + "/device");
    look_at_driver(files, &nic);

    errno = 0;
    const open_device opened(verbs, device);
    if (opened.pd() == nullptr) {
        const int error = errno;
        nic.fails("open", strerror(error),
                  (opened.context() == nullptr)
                      ? "ibv_open_device failed"
                      : "ibv_alloc_pd failed, mostly for want of locked memory",
                  remedy_of_open(error));
    } else {
        look_at_ports(opened.context(), verbs.plug_in.connection, &nic);
        look_at_dmabufs(verbs, opened, &nic);
    }
    out->nics.push_back(nic);
}

void look_at_list(const tree &files, const libibverbs &verbs, report *out)
{
    const device_list all(verbs);

    for (ibv_device *each : all.devices()) {
        look_at_nic(files, verbs, each, out);
    }
    if (!out->nics.empty()) {
        return;
    }
    if (out->no_nic) {
        out->machine.fails("RDMA devices", "none",
                           "PCI has no NIC that is known for RDMA",
                           "use a machine with one, or pass one to the virtual "
                           "machine");
    } else if (files.list("/sys/class/infiniband").empty()) {
        out->machine.fails("RDMA devices", "none",
                           "there is none in /sys/class/infiniband",
                           "load the NIC's RDMA driver, as mlx5_ib");
    } else {
        out->machine.fails(
            "RDMA devices", "none that can be used",
            "the kernel has some, but libibverbs takes none",
            "load ib_uverbs, install rdma-core's provider for the NIC "
            "(ibverbs-providers), pass /dev/infiniband to a container");
    }
}

} // namespace

void look_at_nics(const tree &files, report *out)
{
    const libibverbs &verbs = libibverbs::get();

    if (!verbs.problem.empty()) {
        out->machine.fails("libibverbs", verbs.path, verbs.problem,
                           "install or update rdma-core (libibverbs1, "
                           "ibverbs-providers)");
        return;
    }
    out->machine.ok("libibverbs", verbs.path);
    look_at_list(files, verbs, out);
}

} // namespace ucx_ib_dmabuf::info
