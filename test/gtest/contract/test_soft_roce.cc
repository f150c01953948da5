// SPDX-License-Identifier: BSD-3-Clause
//
// The registrar's contract in the lab, where uct_ib's protection domain is
// soft-RoCE's. Also the exporter's contract, as exports are dma-bufs there.
#include "cuda_world.h"
#include "registrar.h"
#include "udmabuf_vendor.h"
#include <cstring>
#include <gtest/md/memory_domain.h>
#include <lab/soft_roce.h>
#include <optional>
#include <sys/mman.h>
#include <uct/ib_dmabuf/md/memory_domain.h>
#include <uct/ib_dmabuf/ucx/ucx_instance.h>

namespace ucx_ib_dmabuf {
namespace {

namespace lab = test;

class udmabuf_world final : public exporter_world {
public:
    exporter &subject() override { return vendor_; }

    uintptr_t allocate(size_t size) override { return vendor_.allocate(size); }
    uintptr_t neighbours(size_t size) override
    {
        if (size % vendor_.granularity() != 0) {
            return 0; // its allocations are whole pages
        }
        const uintptr_t low = vendor_.allocate(size);
        vendor_.allocate(size);
        return low;
    }
    uintptr_t map(unsigned count) override
    {
        return vendor_.allocate(segment(), count);
    }
    void remap(uintptr_t address) override { vendor_.replace(address); }
    void release(uintptr_t address) override { vendor_.release(address); }
    bool shows(int fd, uintptr_t address) override
    {
        const int number  = ++last_;
        const size_t size = vendor_.granularity();
        void *seen        = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);

        memcpy(reinterpret_cast<void *>(address), &number, sizeof(number));
        const bool same = (seen != MAP_FAILED) &&
                          (memcmp(seen, &number, sizeof(number)) == 0);
        munmap(seen, size);
        return same;
    }

private:
    udmabuf_vendor vendor_;
    int last_ = 0;
};

// Registers in uct_ib's own domain.
class soft_roce final : public registrar_world {
public:
    soft_roce()
    {
        const auto uct = reinterpret_cast<uct_md_h>(md_.get());
        original_.emplace(the_host(uct), uct, md_.pd(), false);
        subject_ =
            std::make_unique<md_registrar>(*original_, gpus_, paths_, false);
    }

    registrar &subject() override { return *subject_; }

    int dmabuf(size_t size) override
    {
        memory_ = std::make_unique<lab::dma_buf>(size);
        return dup(memory_->fd());
    }
    bool reaches(void *handle, uintptr_t address, size_t at) override
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
    std::unique_ptr<md_registrar> subject_;
    std::unique_ptr<lab::dma_buf> memory_;
    int number_ = 0;
};

INSTANTIATE_TEST_SUITE_P(gpu, contract_exporter,
                         testing::Values(cuda_world::make_if_any));
INSTANTIATE_TEST_SUITE_P(udmabuf, contract_exporter,
                         testing::Values(make<exporter_world, udmabuf_world>));
INSTANTIATE_TEST_SUITE_P(soft_roce, contract_registrar,
                         testing::Values(make<registrar_world, soft_roce>));

} // namespace
} // namespace ucx_ib_dmabuf
