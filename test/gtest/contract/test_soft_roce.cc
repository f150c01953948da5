// SPDX-License-Identifier: BSD-3-Clause
//
// The registrar's contract in the lab: uct_ib's protection domain is
// soft-RoCE's. And the exporter's, where exports are dma-bufs.
#include "../../../src/uct/ib_dmabuf/md/nic.h"
#include "cuda_world.h"
#include "exporter.h"
#include "registrar.h"
#include "udmabuf_world.h"
#include <dlfcn.h>
#include <lab/soft_roce.h>

namespace {

namespace lab = ucx_ib_dmabuf::test;

// The memory region that the last registration made: handles are opaque.
std::atomic<ibv_mr *> last_mr;

} // namespace

extern "C" ibv_mr *ibv_reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length,
                                     uint64_t iova, int fd, int access)
{
    static const auto next = reinterpret_cast<decltype(&ibv_reg_dmabuf_mr)>(
        dlsym(RTLD_NEXT, "ibv_reg_dmabuf_mr"));
    ibv_mr *mr = next(pd, offset, length, iova, fd, access);

    last_mr = (mr != nullptr) ? mr : last_mr.load();
    return mr;
}

namespace {

class soft_roce {
public:
    static std::string missing() { return ""; }

    soft_roce()
    {
        md_.pd               = nic_.pd();
        md_.memh_struct_size = sizeof(uct_ib_mem_t) + sizeof(ibv_mr *);
        subject_             = std::make_unique<ucx_ib_dmabuf::nic>(
            &md_, gpus_, ucx_ib_dmabuf::find_verbs_functions());
    }

    ucx_ib_dmabuf::registrar &subject() { return *subject_; }
    void mistake() {}

    int dmabuf(size_t size)
    {
        memory_ = std::make_unique<lab::dma_buf>(size);
        return dup(memory_->fd());
    }
    uintptr_t address() const { return uintptr_t{1} << 40; }
    bool reaches(void *, uintptr_t address, size_t at)
    {
        std::vector<uint8_t> host(64, static_cast<uint8_t>(++number_));
        const lab::region source = nic_.reg(host);

        return (nic_.transfer(IBV_WR_RDMA_WRITE, host.data(), source->lkey,
                              address, last_mr.load()->rkey,
                              host.size()) == IBV_WC_SUCCESS) &&
               std::equal(host.begin(), host.end(), memory_->bytes() + at);
    }

private:
    udmabuf_vendor gpus_; // not used
    lab::nic nic_;
    uct_ib_md_t md_{};
    std::unique_ptr<ucx_ib_dmabuf::nic> subject_;
    std::unique_ptr<lab::dma_buf> memory_;
    int number_ = 0;
};

INSTANTIATE_TYPED_TEST_SUITE_P(gpu, contract_exporter, cuda_world);
INSTANTIATE_TYPED_TEST_SUITE_P(udmabuf, contract_exporter, udmabuf_world);
INSTANTIATE_TYPED_TEST_SUITE_P(soft_roce, contract_registrar, soft_roce);

} // namespace
