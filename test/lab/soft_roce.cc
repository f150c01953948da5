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

template <typename T>
T check(T result, bool good, const char *what)
{
    if (!good) {
        throw std::system_error(errno, std::generic_category(), what);
    }

    return result;
}

int check_fd(int fd, const char *what)
{
    return check(fd, fd >= 0, what);
}

template <typename T>
T *check_pointer(T *pointer, const char *what)
{
    return check(pointer, pointer != nullptr, what);
}

/* For verbs that return an errno. */
void check_zero(int error, const char *what)
{
    if (error != 0) {
        throw std::system_error(error, std::generic_category(), what);
    }
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

dma_buf::dma_buf(size_t size) : m_size(size)
{
    m_memory_fd =
        check_fd(memfd_create("dma_buf", MFD_ALLOW_SEALING), "memfd_create");
    check_zero(ftruncate(m_memory_fd, size), "ftruncate");
    check_zero(fcntl(m_memory_fd, F_ADD_SEALS, F_SEAL_SHRINK), "F_ADD_SEALS");
    void *bytes =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, m_memory_fd, 0);
    m_bytes = static_cast<uint8_t *>(check(bytes, bytes != MAP_FAILED, "mmap"));

    m_fd = export_memory(m_memory_fd, size);
}

void dma_buf::release()
{
    if (m_bytes != nullptr) {
        munmap(m_bytes, m_size);
        close(m_fd);
        close(m_memory_fd);
        m_bytes = nullptr;
    }
}

dma_buf::~dma_buf()
{
    release();
}

nic::nic()
{
    int count         = 0;
    ibv_device **list = ibv_get_device_list(&count);
    m_context         = (count > 0) ? ibv_open_device(list[0]) : nullptr;
    ibv_free_device_list(list);
    check_pointer(m_context, "ibv_open_device");
    m_pd = check_pointer(ibv_alloc_pd(m_context), "ibv_alloc_pd");
    connect();
}

nic::nic(ibv_pd *pd) : m_owner(false), m_context(pd->context), m_pd(pd)
{
    connect();
}

nic::~nic()
{
    disconnect();
    if (m_owner) {
        ibv_dealloc_pd(m_pd);
        ibv_close_device(m_context);
    }
}

void nic::disconnect()
{
    for (ibv_qp *&qp : m_qps) {
        ibv_destroy_qp(qp);
        qp = nullptr;
    }
    ibv_destroy_cq(m_cq);
}

void nic::connect()
{
    constexpr int GID_INDEX = 1; /* RoCE v2, IPv4 */
    union ibv_gid gid;

    check_zero(ibv_query_gid(m_context, 1, GID_INDEX, &gid), "ibv_query_gid");
    m_cq = check_pointer(ibv_create_cq(m_context, 16, nullptr, nullptr, 0),
                         "ibv_create_cq");
    for (ibv_qp *&qp : m_qps) {
        ibv_qp_init_attr init = {};
        init.send_cq = init.recv_cq = m_cq;
        init.qp_type                = IBV_QPT_RC;
        init.cap.max_send_wr = init.cap.max_recv_wr = 4;
        init.cap.max_send_sge = init.cap.max_recv_sge = 1;
        qp = check_pointer(ibv_create_qp(m_pd, &init), "ibv_create_qp");
    }

    for (int i = 0; i < 2; ++i) {
        ibv_qp_attr attr     = {};
        attr.qp_state        = IBV_QPS_INIT;
        attr.port_num        = 1;
        attr.qp_access_flags = ALL_ACCESS;
        check_zero(ibv_modify_qp(m_qps[i], &attr,
                                 IBV_QP_STATE | IBV_QP_PKEY_INDEX |
                                     IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
                   "to INIT");

        attr.qp_state               = IBV_QPS_RTR;
        attr.path_mtu               = IBV_MTU_4096;
        attr.dest_qp_num            = m_qps[1 - i]->qp_num;
        attr.max_dest_rd_atomic     = 4;
        attr.min_rnr_timer          = 12;
        attr.ah_attr.is_global      = 1;
        attr.ah_attr.port_num       = 1;
        attr.ah_attr.grh.dgid       = gid;
        attr.ah_attr.grh.sgid_index = GID_INDEX;
        attr.ah_attr.grh.hop_limit  = 1;
        check_zero(ibv_modify_qp(m_qps[i], &attr,
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
        check_zero(ibv_modify_qp(m_qps[i], &attr,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT |
                                     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                   "to RTS");
    }
}

region nic::reg(std::vector<uint8_t> &memory)
{
    return region(check_pointer(
        ibv_reg_mr(m_pd, memory.data(), memory.size(), ALL_ACCESS),
        "ibv_reg_mr"));
}

region nic::reg(int fd, uint64_t offset, size_t length, uint64_t iova,
                int access)
{
    return region(
        check_pointer(ibv_reg_dmabuf_mr(m_pd, offset, length, iova, fd, access),
                      "ibv_reg_dmabuf_mr"));
}

int nic::reg_errno(int fd, uint64_t offset, size_t length, uint64_t iova,
                   int access)
{
    try {
        reg(fd, offset, length, iova, access);
        return 0;
    } catch (const std::system_error &error) {
        return error.code().value();
    }
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
    check_zero(ibv_post_send(m_qps[0], &wr, &bad), "ibv_post_send");
    while (ibv_poll_cq(m_cq, 1, &wc) == 0) {
    }

    if (wc.status != IBV_WC_SUCCESS) {
        disconnect();
        connect();
    }
    return wc.status;
}

} // namespace ucx_ib_dmabuf::test
