// SPDX-License-Identifier: BSD-3-Clause
#include "soft_roce.h"

#include <cerrno>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ucx_ib_dmabuf::test {

namespace {

// For verbs that return an errno.
void check_zero(int error, const char *what)
{
    if (error != 0) {
        throw std::system_error(error, std::generic_category(), what);
    }
}

int check_fd(int fd, const char *what)
{
    check_zero(fd < 0 ? errno : 0, what);
    return fd;
}

template <typename T>
T *check_pointer(T *pointer, const char *what)
{
    check_zero(pointer == nullptr ? errno : 0, what);
    return pointer;
}

} // namespace

int export_memory(int memory_fd, size_t size)
{
    int device =
        check_fd(open("/dev/udmabuf", O_RDWR | O_CLOEXEC), "/dev/udmabuf");
    udmabuf_create create = {};
    create.memfd          = memory_fd;
    create.flags          = UDMABUF_FLAGS_CLOEXEC;
    create.size           = size;
    int fd                = ioctl(device, UDMABUF_CREATE, &create);
    close(device);
    return check_fd(fd, "UDMABUF_CREATE");
}

dma_buf::dma_buf(size_t size) : size_(size)
{
    memory_fd_ =
        check_fd(memfd_create("dma_buf", MFD_ALLOW_SEALING), "memfd_create");
    check_zero(ftruncate(memory_fd_, size), "ftruncate");
    check_zero(fcntl(memory_fd_, F_ADD_SEALS, F_SEAL_SHRINK), "F_ADD_SEALS");
    void *bytes =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd_, 0);
    check_zero(bytes == MAP_FAILED ? errno : 0, "mmap");
    bytes_ = static_cast<uint8_t *>(bytes);

    fd_ = export_memory(memory_fd_, size);
}

void dma_buf::release()
{
    if (bytes_ != nullptr) {
        munmap(bytes_, size_);
        close(fd_);
        close(memory_fd_);
        bytes_ = nullptr;
    }
}

nic::nic()
{
    int count         = 0;
    ibv_device **list = ibv_get_device_list(&count);
    context_          = (count > 0) ? ibv_open_device(list[0]) : nullptr;
    ibv_free_device_list(list);
    check_pointer(context_, "ibv_open_device");
    pd_ = check_pointer(ibv_alloc_pd(context_), "ibv_alloc_pd");
    connect();
}

nic::nic(ibv_pd *pd) : is_owner_(false), context_(pd->context), pd_(pd)
{
    connect();
}

nic::~nic()
{
    disconnect();
    if (is_owner_) {
        ibv_dealloc_pd(pd_);
        ibv_close_device(context_);
    }
}

void nic::disconnect()
{
    for (ibv_qp *&qp : qps_) {
        ibv_destroy_qp(qp);
        qp = nullptr;
    }
    ibv_destroy_cq(cq_);
}

void nic::connect()
{
    constexpr int GID_INDEX = 1; // RoCE v2, IPv4
    union ibv_gid gid;

    check_zero(ibv_query_gid(context_, 1, GID_INDEX, &gid), "ibv_query_gid");
    cq_ = check_pointer(ibv_create_cq(context_, 16, nullptr, nullptr, 0),
                        "ibv_create_cq");
    for (ibv_qp *&qp : qps_) {
        ibv_qp_init_attr init = {};
        init.send_cq = init.recv_cq = cq_;
        init.qp_type                = IBV_QPT_RC;
        init.cap.max_send_wr = init.cap.max_recv_wr = 4;
        init.cap.max_send_sge = init.cap.max_recv_sge = 1;
        qp = check_pointer(ibv_create_qp(pd_, &init), "ibv_create_qp");
    }

    for (int i = 0; i < 2; ++i) {
        ibv_qp_attr attr     = {};
        attr.qp_state        = IBV_QPS_INIT;
        attr.port_num        = 1;
        attr.qp_access_flags = ALL_ACCESS;
        check_zero(ibv_modify_qp(qps_[i], &attr,
                                 IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                                     IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                   "to INIT");

        attr.qp_state               = IBV_QPS_RTR;
        attr.path_mtu               = IBV_MTU_4096;
        attr.dest_qp_num            = qps_[1 - i]->qp_num;
        attr.max_dest_rd_atomic     = 4;
        attr.min_rnr_timer          = 12;
        attr.ah_attr.is_global      = 1;
        attr.ah_attr.port_num       = 1;
        attr.ah_attr.grh.dgid       = gid;
        attr.ah_attr.grh.sgid_index = GID_INDEX;
        attr.ah_attr.grh.hop_limit  = 1;
        check_zero(ibv_modify_qp(qps_[i], &attr,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC |
                                     IBV_QP_MIN_RNR_TIMER),
                   "to RTR");

        attr.qp_state      = IBV_QPS_RTS;
        attr.timeout       = 14;
        attr.retry_cnt     = 7;
        attr.rnr_retry     = 7;
        attr.max_rd_atomic = 4;
        check_zero(ibv_modify_qp(qps_[i], &attr,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT |
                                     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                   "to RTS");
    }
}

region nic::reg(std::vector<uint8_t> &memory)
{
    return region(
        check_pointer(ibv_reg_mr(pd_, memory.data(), memory.size(), ALL_ACCESS),
                      "ibv_reg_mr"));
}

region nic::reg(int fd, uint64_t offset, size_t length, uint64_t iova,
                int access)
{
    return region(
        check_pointer(ibv_reg_dmabuf_mr(pd_, offset, length, iova, fd, access),
                      "ibv_reg_dmabuf_mr"));
}

ibv_wc_status nic::transfer(ibv_wr_opcode opcode, const void *local,
                            uint32_t lkey, uint64_t remote, uint32_t rkey,
                            size_t length)
{
    ibv_sge sge            = {reinterpret_cast<uintptr_t>(local),
                              static_cast<uint32_t>(length), lkey};
    ibv_send_wr wr         = {};
    ibv_send_wr *bad       = nullptr;
    ibv_wc wc              = {};
    wr.sg_list             = &sge;
    wr.num_sge             = 1;
    wr.opcode              = opcode;
    wr.send_flags          = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey        = rkey;
    check_zero(ibv_post_send(qps_[0], &wr, &bad), "ibv_post_send");
    while (ibv_poll_cq(cq_, 1, &wc) == 0) {
    }

    if (wc.status != IBV_WC_SUCCESS) {
        disconnect();
        connect();
    }
    return wc.status;
}

} // namespace ucx_ib_dmabuf::test
