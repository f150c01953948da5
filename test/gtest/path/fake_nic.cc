// SPDX-License-Identifier: BSD-3-Clause
#include "fake_nic.h"
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <utility>

static std::atomic<int64_t> passed; // microseconds

// Replaces libstdc++'s clock.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept
{
    return time_point(std::chrono::microseconds(++passed));
}

namespace path_test {

static fake_nic *current;

void pass(std::chrono::microseconds time)
{
    passed += time.count();
}

struct fake_verbs {
    static int query_device(ibv_context *, ibv_device_attr *attr)
    {
        attr->phys_port_cnt = static_cast<uint8_t>(current->down + 1);
        attr->atomic_cap = current->atomics ? IBV_ATOMIC_HCA : IBV_ATOMIC_NONE;
        return 0;
    }

    static int query_port(ibv_context *, uint8_t number, ibv_port_attr *attr)
    {
        attr->state =
            (number > current->down) ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
        attr->link_layer   = current->ethernet ? IBV_LINK_LAYER_ETHERNET
                                               : IBV_LINK_LAYER_INFINIBAND;
        attr->gid_tbl_len  = static_cast<int>(current->addresses.size());
        attr->pkey_tbl_len = static_cast<uint16_t>(current->keys.size());
        return 0;
    }

    static int query_gid(ibv_context *, uint32_t, uint32_t index,
                         ibv_gid_entry *entry, uint32_t, size_t)
    {
        const fake_nic::address &at = current->addresses.at(index);

        ++current->asked;
        entry->gid_type = at.v2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
        if (!at.there) {
            return 0;
        }
        if (at.ipv4) {
            entry->gid.raw[10] = entry->gid.raw[11] = 255;
        } else {
            entry->gid.raw[0] = 0xfe;
        }
        entry->gid.raw[15] = static_cast<uint8_t>(index + 1);
        return 0;
    }

    static int query_pkey(ibv_context *, uint8_t, int index, __be16 *key)
    {
        *key = htons(current->keys.at(static_cast<size_t>(index)));
        return 0;
    }

    static ibv_cq *create_cq(ibv_context *context, int, void *,
                             ibv_comp_channel *, int)
    {
        if (current->connected == current->connections) {
            return nullptr;
        }
        ++current->connected;
        ++current->queues;
        current->queue_.context = context;
        current->is_mute_ = current->has_failed_ = false;
        current->done_.clear();
        return &current->queue_;
    }

    static int destroy_cq(ibv_cq *)
    {
        --current->queues;
        EXPECT_EQ(0, current->queue_pairs); // a device would refuse it
        return 0;
    }

    static ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *)
    {
        auto *made    = new ibv_qp{};
        made->context = pd->context;
        made->qp_num  = static_cast<uint32_t>(++current->queue_pairs);
        return made;
    }

    static int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
    {
        if ((mask & IBV_QP_PKEY_INDEX) != 0) {
            EXPECT_EQ(current->down + 1, attr->port_num);
            current->partition = attr->pkey_index;
            const bool atomics = (attr->qp_access_flags &
                                  unsigned{IBV_ACCESS_REMOTE_ATOMIC}) != 0;
            return (atomics && !current->atomics) ? EINVAL : 0;
        }
        if (attr->qp_state == IBV_QPS_RTS) {
            EXPECT_EQ(IBV_QPS_RTR, qp->state);
            ++current->ready;
            EXPECT_EQ(1, attr->max_rd_atomic); // each NIC has that
            return 0;
        }
        EXPECT_EQ(IBV_QPS_RESET, qp->state);
        EXPECT_NE(qp->qp_num, attr->dest_qp_num);
        qp->state = IBV_QPS_RTR; // each one reaches RTR once
        EXPECT_EQ(1, attr->max_dest_rd_atomic);
        return (attr->ah_attr.is_global == 0) ? 0 : connect(attr->ah_attr.grh);
    }

    static int connect(const ibv_global_route &by)
    {
        const uint8_t index = by.sgid_index;

        EXPECT_EQ(index + 1, by.dgid.raw[15]); // its own GID
        if (current->tried.empty() || (current->tried.back() != index)) {
            current->tried.push_back(index);
        }
        return current->addresses.at(index).connects ? 0 : ENETUNREACH;
    }

    static const char *wc_status_str(ibv_wc_status status)
    {
        return (status == IBV_WC_REM_ACCESS_ERR) ? "remote access error"
                                                 : "another error";
    }
    static int destroy_qp(ibv_qp *qp)
    {
        --current->queue_pairs;
        current->ready = 0;
        delete qp;
        return 0;
    }

    static int post_send(ibv_qp *, ibv_send_wr *first, ibv_send_wr **)
    {
        current->is_mute_ |= current->silent > 0;
        current->silent -= current->silent > 0;
        current->posted.clear();
        for (; first != nullptr; first = first->next) {
            EXPECT_EQ(current->posted.size(), first->wr_id);
            EXPECT_TRUE((first->send_flags & IBV_SEND_SIGNALED) != 0);
            current->posted.push_back(*first);
            if (!current->is_mute_) {
                complete(*first);
            }
        }
        return 0;
    }

    static void complete(const ibv_send_wr &what)
    {
        ibv_wc done{};

        done.wr_id  = what.wr_id;
        done.status = current->has_failed_ ? IBV_WC_WR_FLUSH_ERR
                                           : current->transfer(what);
        current->has_failed_ |= done.status != IBV_WC_SUCCESS;
        current->done_.push_back(done);
    }

    static int poll_cq(ibv_cq *, int, ibv_wc *done)
    {
        if (current->is_mute_ || (current->silent_polls > 0)) {
            current->silent_polls -= current->silent_polls > 0;
            pass(current->pause);
            return 0;
        }
        *done = current->done_.front();
        current->done_.pop_front();
        return 1;
    }

    static ibv_mr *reg(ibv_pd *, void *, size_t, uint64_t, int)
    {
        static ibv_mr region;

        ++current->host_regions;
        region.lkey = host_key;
        region.rkey = remote(host_key);
        return &region;
    }

    static int dereg(ibv_mr *)
    {
        --current->host_regions;
        return 0;
    }
};

fake_nic::fake_nic()
{
    current = this;
    strcpy(device_.name, "nic0");
    context_.device        = &device_;
    context_.ops.poll_cq   = fake_verbs::poll_cq;
    context_.ops.post_send = fake_verbs::post_send;
    pd_.context            = &context_;
    verbs_                 = {fake_verbs::reg,
                              fake_verbs::dereg,
                              {fake_verbs::query_device, fake_verbs::query_port,
                               fake_verbs::query_gid, fake_verbs::query_pkey,
                               fake_verbs::create_cq, fake_verbs::destroy_cq,
                               fake_verbs::create_qp, fake_verbs::modify_qp,
                               fake_verbs::wc_status_str, fake_verbs::destroy_qp}};
}

fake_nic::~fake_nic()
{
    EXPECT_EQ(0, queue_pairs);
    EXPECT_EQ(0, queues);
    EXPECT_EQ(0, host_regions);
}

lying_nic::outcome lying_nic::ask(const ibv_send_wr &what, uint32_t key,
                                  bool is_local, bool is_read, uint8_t *bytes)
{
    return (lie && (is_gpu(key) || lies_of_host))
               ? lie({what.opcode, is_read, is_local, bytes,
                      what.sg_list->length})
               : outcome::fine;
}

void lying_nic::put(uint32_t key, uint64_t to, std::vector<uint8_t> bytes)
{
    on_its_way_[is_gpu(key)].emplace_back([to, all = std::move(bytes)] {
        memcpy(pointer(to), all.data(), all.size());
    });
    if (!late) {
        push(key);
    }
}

// A read of the memory does not overtake earlier writes to it.
void lying_nic::push(uint32_t key)
{
    for (auto &write : std::exchange(on_its_way_[is_gpu(key)], {})) {
        write();
    }
}

// An atomic addition writes to the remote memory, and returns what was there.
ibv_wc_status lying_nic::move(const ibv_send_wr &what)
{
    const bool adds     = what.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const bool reads    = what.opcode == IBV_WR_RDMA_READ;
    const uint32_t rkey = adds ? what.wr.atomic.rkey : what.wr.rdma.rkey;
    const uint64_t far =
        adds ? what.wr.atomic.remote_addr : what.wr.rdma.remote_addr;
    const ibv_sge &local = *what.sg_list;
    outcome read         = outcome::fine;

    if (reads) {
        push(rkey);
    }
    const uint8_t *from = pointer((reads || adds) ? far : local.addr);
    std::vector<uint8_t> moved(from, from + local.length);
    if (adds) {
        ++added;
        memcpy(pointer(local.addr), moved.data(), 8);
        moved[0] += 1; // no carry: the check adds to 0xef
    } else {
        read = ask(what, reads ? rkey : local.lkey, !reads, true, moved.data());
    }
    const outcome written =
        ask(what, reads ? local.lkey : rkey, reads, false, moved.data());
    if (written == outcome::fine) {
        put(reads ? local.lkey : rkey, reads ? local.addr : far,
            std::move(moved));
    }
    return ((read != outcome::error) && (written != outcome::error))
               ? IBV_WC_SUCCESS
               : IBV_WC_REM_ACCESS_ERR;
}

} // namespace path_test
