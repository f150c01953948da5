// SPDX-License-Identifier: BSD-3-Clause
//
// The registrar's contract in the lab, where uct_ib's protection domain is
// soft-RoCE's. Also the exporter's contract, as exports are dma-bufs there.
#include "cuda_world.h"
#include "exporter.h"
#include "registrar.h"
#include "udmabuf_world.h"
#include <gtest/md/memory_domain.h>
#include <lab/soft_roce.h>
#include <optional>
#include <uct/ib_dmabuf/md/nic.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>

namespace ucx_ib_dmabuf {
namespace {

namespace lab = test;

// Registers in uct_ib's own domain.
class soft_roce {
public:
    static std::string missing() { return ""; }

    soft_roce()
    {
        const auto uct = reinterpret_cast<uct_md_h>(md_.get());
        original_.emplace(the_host(uct), uct, md_.pd(), false);
        subject_ = std::make_unique<nic>(*original_, gpus_, paths_, false);
    }

    registrar &subject() { return *subject_; }
    void mistake() {}

    int dmabuf(size_t size)
    {
        memory_ = std::make_unique<lab::dma_buf>(size);
        return dup(memory_->fd());
    }
    uintptr_t address() const { return uintptr_t{1} << 40; }
    bool reaches(void *handle, uintptr_t address, size_t at)
    {
        std::vector<uint8_t> host(64, static_cast<uint8_t>(++number_));
        const lab::region source = nic_.reg(host);

        return (nic_.transfer(IBV_WR_RDMA_WRITE, host.data(), source->lkey,
                              address, rkey_of(handle),
                              host.size()) == IBV_WC_SUCCESS) &&
               std::equal(host.begin(), host.end(), memory_->bytes() + at);
    }

private:
    static const ucx_instance &the_host(uct_md_h md)
    {
        const char *why = nullptr;
        static const auto found =
            ucx_instance::look_up(library::around(md->ops), md->component, &why)
                .release();
        if (found == nullptr) {
            throw std::runtime_error(why);
        }
        return *found;
    }
    static uint32_t rkey_of(void *handle)
    {
        return static_cast<registration *>(handle)->rkey;
    }

    udmabuf_vendor gpus_; // not used
    ::memory_domain md_;
    lab::nic nic_{md_.pd()};
    std::optional<saved_md_ops> original_;
    path_table paths_;
    std::unique_ptr<nic> subject_;
    std::unique_ptr<lab::dma_buf> memory_;
    int number_ = 0;
};

INSTANTIATE_TYPED_TEST_SUITE_P(gpu, contract_exporter, cuda_world);
INSTANTIATE_TYPED_TEST_SUITE_P(udmabuf, contract_exporter, udmabuf_world);
INSTANTIATE_TYPED_TEST_SUITE_P(soft_roce, contract_registrar, soft_roce);

} // namespace
} // namespace ucx_ib_dmabuf
