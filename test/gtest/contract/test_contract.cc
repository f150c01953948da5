// SPDX-License-Identifier: BSD-3-Clause
//
// The contract of an exporter, with the fake GPU of the cache's tests, and with
// a simulated or a real one.
#include "cuda_world.h"
#include <common/fakes.h>

namespace ucx_ib_dmabuf {
namespace {

// The GPU of the cache's tests. It counts refused mistakes as complaints.
class fake_gpu final : public exporter_world {
public:
    ~fake_gpu() override
    {
        EXPECT_EQ(mistakes_, fakes::complaints.exchange(0));
    }

    exporter &subject() override { return gpu_; }
    void mistake() override { ++mistakes_; }

    uintptr_t allocate(size_t size) override { return add(size, false); }
    uintptr_t neighbours(size_t size) override
    {
        const uintptr_t low = add(size, false);
        add_at(low + size, size, false);
        return low;
    }
    uintptr_t map(unsigned count) override
    {
        const uintptr_t base = next_;
        for (unsigned i = 0; i < count; ++i) {
            add_at(base + i * segment(), segment(), true);
        }
        next_ += count * segment() + gap;
        mapped_[base] = count;
        return base;
    }
    void remap(uintptr_t address) override
    {
        gpu_.free(address);
        gpu_.alloc(address, segment(), 0, true, true);
    }
    void release(uintptr_t address) override
    {
        const unsigned count = mapped_.count(address) ? mapped_[address] : 1;
        for (unsigned i = 0; i < count; ++i) {
            gpu_.free(address + i * segment());
        }
        mapped_.erase(address);
        last_ = address;
    }
    bool shows(int fd, uintptr_t address) override
    {
        const auto segments = gpu_.contents(fd, 1);
        return !segments.empty() &&
               (segments.front().id == gpu_.id_at(address));
    }

private:
    static constexpr size_t gap = 64 << 20;

    // Memory that was released last is allocated first, as drivers do.
    uintptr_t add(size_t size, bool vmm)
    {
        const uintptr_t base = last_ ? last_ : next_;
        next_ += last_ ? 0 : size + gap;
        last_ = 0;
        add_at(base, size, vmm);
        return base;
    }
    void add_at(uintptr_t base, size_t size, bool vmm)
    {
        gpu_.alloc(base, size, 0, true, vmm);
    }

    fakes::gpu gpu_;
    uint64_t mistakes_ = 0;
    std::map<uintptr_t, unsigned> mapped_;
    uintptr_t next_ = uintptr_t{1} << 40;
    uintptr_t last_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    fake, contract_exporter,
    testing::Values([]() -> std::unique_ptr<exporter_world> {
        return std::make_unique<fake_gpu>();
    }));
INSTANTIATE_TEST_SUITE_P(gpu, contract_exporter,
                         testing::Values(cuda_world::make_if_any));

// Kinds of memory that the fakes lack.
TEST(cuda_vendor, takes_only_what_can_be_exported)
{
    gpu::use();
    const auto gpus = find_cuda();
    const gpu::buffer variable(4096, gpu::memory::variable);
    allocation found;
    CUdeviceptr managed = 0;
    void *host          = nullptr;
    int fd              = -1;

    GPU_CALL(cuMemAllocManaged, &managed, 4096, CU_MEM_ATTACH_GLOBAL);
    GPU_CALL(cuMemAllocHost, &host, 4096);
    EXPECT_EQ(UCS_OK, gpus->describe(variable.address(), &found));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM,
              gpus->export_range(variable.address(), variable.size(), &fd));
    for (uintptr_t other : {uintptr_t{managed}, uintptr_t(host)}) {
        EXPECT_EQ(UCS_ERR_NO_ELEM, gpus->describe(other, &found));
    }
    GPU_CALL(cuMemFree, managed);
    GPU_CALL(cuMemFreeHost, host);
}

} // namespace
} // namespace ucx_ib_dmabuf
