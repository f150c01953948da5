// SPDX-License-Identifier: BSD-3-Clause
//
// The queues of fake_verbs.cc's device. A queue pair delivers to any other one
// at once.
#include <cerrno>
#include <common/driver.h>
#include <cstring>
#include <deque>
#include <infiniband/verbs.h>
#include <map>
#include <mutex>
#include <sys/eventfd.h>

void set_queue_functions(ibv_context_ops *all);

namespace {

constexpr int grh = 40; // bytes before a datagram's payload

struct received {
    uint64_t id;
    char *at;
};
struct completion_queue : ibv_cq {
    std::deque<ibv_wc> done;
};
struct shared_queue : ibv_srq {
    std::deque<received> free;
};
struct queue_pair : ibv_qp {
    ibv_qp_init_attr made_with{};
    uint32_t peer = 0;
    std::deque<received> free;
};

std::mutex mutex; // of all queues
std::map<uint32_t, queue_pair *> pairs;
uint32_t last_number = 100;

void complete(ibv_cq *cq, const ibv_qp *qp, uint64_t id, ibv_wc_opcode opcode,
              uint32_t length = 0, uint32_t from = 0)
{
    ibv_wc wc{};
    wc.wr_id    = id;
    wc.opcode   = opcode;
    wc.byte_len = length;
    wc.qp_num   = qp->qp_num;
    wc.src_qp   = from;
    static_cast<completion_queue *>(cq)->done.push_back(wc);
}

// Returns false if the receiver has no buffer.
bool deliver(const ibv_qp *from, uint32_t number, const ibv_send_wr &wr)
{
    const auto found = pairs.find(number);
    if (found == pairs.end()) {
        return true; // no such queue pair
    }
    queue_pair *to = found->second;
    auto &free =
        to->srq ? static_cast<shared_queue *>(to->srq)->free : to->free;
    if (free.empty()) {
        return false;
    }
    const received into = free.front();
    free.pop_front();
    uint32_t length = (to->qp_type == IBV_QPT_UD) ? grh : 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        memcpy(into.at + length,
               reinterpret_cast<const void *>(wr.sg_list[i].addr),
               wr.sg_list[i].length);
        length += wr.sg_list[i].length;
    }
    complete(to->recv_cq, to, into.id, IBV_WC_RECV, length, from->qp_num);
    return true;
}

// Either address may be memory of a GPU.
void move(uint64_t to, uint64_t from, uint32_t length)
{
    GPU_CALL(cuMemcpy, to, from, length);
}

void access_remote(const ibv_send_wr &wr)
{
    uint64_t remote = wr.wr.rdma.remote_addr;
    for (int i = 0; i < wr.num_sge; ++i) {
        const ibv_sge &local = wr.sg_list[i];
        if (wr.opcode == IBV_WR_RDMA_READ) {
            move(local.addr, remote, local.length);
        } else {
            move(remote, local.addr, local.length);
        }
        remote += local.length;
    }
}

int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad)
{
    const std::lock_guard guard(mutex);
    for (; wr != nullptr; wr = wr->next) {
        const uint32_t to = (qp->qp_type == IBV_QPT_UD)
                                ? wr->wr.ud.remote_qpn
                                : static_cast<queue_pair *>(qp)->peer;
        if (wr->opcode == IBV_WR_RDMA_READ || wr->opcode == IBV_WR_RDMA_WRITE) {
            access_remote(*wr);
        } else if (!deliver(qp, to, *wr)) {
            *bad = wr;
            return ENOMEM;
        }
        if (wr->send_flags & IBV_SEND_SIGNALED) {
            complete(qp->send_cq, qp, wr->wr_id, IBV_WC_SEND);
        }
    }
    return 0;
}

// Posts to a queue pair or a shared queue.
template <typename Queue, typename Base>
int post_receive(Base *queue, ibv_recv_wr *wr, ibv_recv_wr **)
{
    const std::lock_guard guard(mutex);
    for (; wr != nullptr; wr = wr->next) {
        static_cast<Queue *>(queue)->free.push_back(
            {wr->wr_id, reinterpret_cast<char *>(wr->sg_list[0].addr)});
    }
    return 0;
}

int poll_cq(ibv_cq *cq, int count, ibv_wc *wc)
{
    const std::lock_guard guard(mutex);
    auto &done = static_cast<completion_queue *>(cq)->done;
    int given  = 0;
    for (; given < count && !done.empty(); ++given) {
        wc[given] = done.front();
        done.pop_front();
    }
    return given;
}

} // namespace

void set_queue_functions(ibv_context_ops *all)
{
    all->post_send     = post_send;
    all->post_recv     = post_receive<queue_pair>;
    all->post_srq_recv = post_receive<shared_queue>;
    all->poll_cq       = poll_cq;
    all->req_notify_cq = [](ibv_cq *, int) { return 0; };
}

extern "C" {

ibv_comp_channel *ibv_create_comp_channel(ibv_context *of)
{
    return new ibv_comp_channel{of, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 0};
}

ibv_cq *ibv_create_cq(ibv_context *of, int size, void *, ibv_comp_channel *,
                      int)
{
    auto *cq    = new completion_queue{};
    cq->context = of;
    cq->cqe     = size;
    return cq;
}

ibv_srq *ibv_create_srq(ibv_pd *pd, ibv_srq_init_attr *)
{
    auto *srq    = new shared_queue{};
    srq->context = pd->context;
    srq->pd      = pd;
    return srq;
}

ibv_qp *ibv_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr)
{
    const std::lock_guard guard(mutex);
    auto *qp      = new queue_pair{};
    qp->context   = pd->context;
    qp->pd        = pd;
    qp->send_cq   = attr->send_cq;
    qp->recv_cq   = attr->recv_cq;
    qp->srq       = attr->srq;
    qp->qp_type   = attr->qp_type;
    qp->made_with = *attr;
    qp->qp_num    = ++last_number;
    pairs.emplace(qp->qp_num, qp);
    return qp;
}

int ibv_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    if (mask & IBV_QP_DEST_QPN) {
        static_cast<queue_pair *>(qp)->peer = attr->dest_qp_num;
    }
    return 0;
}

int ibv_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int, ibv_qp_init_attr *init)
{
    *attr     = {};
    *init     = static_cast<queue_pair *>(qp)->made_with;
    attr->cap = init->cap;
    return 0;
}

int ibv_destroy_qp(ibv_qp *qp)
{
    const std::lock_guard guard(mutex);
    pairs.erase(qp->qp_num);
    delete static_cast<queue_pair *>(qp);
    return 0;
}

// clang-format off
int ibv_destroy_cq(ibv_cq *cq) { delete static_cast<completion_queue *>(cq); return 0; }
int ibv_destroy_srq(ibv_srq *srq) { delete static_cast<shared_queue *>(srq); return 0; }
int ibv_query_ece(ibv_qp *, ibv_ece *) { return EOPNOTSUPP; }
ibv_ah *ibv_create_ah(ibv_pd *pd, ibv_ah_attr *) { return new ibv_ah{pd->context, pd, 0}; }
int ibv_destroy_ah(ibv_ah *ah) { delete ah; return 0; }
// clang-format on

} // extern "C"
