// SPDX-License-Identifier: BSD-3-Clause
//
// The contract of an exporter, with the fake GPU of the cache's tests, and with
// a simulated or a real one.
#include "exporter.h"
#include <common/fakes.h>
#include <common/gpu.h>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>

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

    fakes::gpu gpu_{size_t(sysconf(_SC_PAGESIZE))};
    uint64_t mistakes_ = 0;
    std::map<uintptr_t, unsigned> mapped_;
    uintptr_t next_ = uintptr_t{1} << 40;
    uintptr_t last_ = 0;
};

// The GPU that libcuda.so.1 provides, simulated or real.
class cuda_world final : public exporter_world {
public:
    static std::unique_ptr<exporter_world> make_if_any()
    {
        return find_cuda() ? std::make_unique<cuda_world>() : nullptr;
    }

    // No context is current while the exporter is used.
    cuda_world()
    {
        gpu::use();
        GPU_CALL(cuCtxGetCurrent, &context_);
        GPU_CALL(cuCtxSetCurrent, nullptr);
        unit_ = segments(1);
    }
    ~cuda_world() override { GPU_CALL(cuDevicePrimaryCtxRelease, 0); }

    exporter &subject() override { return *gpus_; }
    size_t segment() const override { return unit_->step(); }

    uintptr_t allocate(size_t size) override
    {
        const current here(context_);
        auto made               = std::make_unique<gpu::buffer>(size);
        const uintptr_t address = made->address();
        buffers_[address]       = std::move(made);
        return address;
    }
    uintptr_t neighbours(size_t size) override
    {
        const current here(context_);
        std::map<uintptr_t, std::unique_ptr<gpu::buffer>> all;
        for (int i = 0; i < 32; ++i) {
            auto made               = std::make_unique<gpu::buffer>(size);
            const uintptr_t address = made->address();
            all[address]            = std::move(made);
            auto before             = all.find(address - size);
            auto low = before != all.end() ? before : all.find(address);
            if (all.count(low->first + size)) {
                const uintptr_t base  = low->first;
                buffers_[base]        = std::move(all[base]);
                buffers_[base + size] = std::move(all[base + size]);
                return base;
            }
        }
        return 0;
    }
    uintptr_t map(unsigned count) override
    {
        auto made               = segments(count);
        const uintptr_t address = made->address();
        mapped_[address]        = std::move(made);
        return address;
    }
    void remap(uintptr_t address) override
    {
        auto range = std::prev(mapped_.upper_bound(address));
        range->second->remap((address - range->first) / segment());
    }
    void release(uintptr_t address) override
    {
        const current here(context_);
        buffers_.erase(address);
        mapped_.erase(address);
    }
    // Writes a pattern, and looks for it in the dma-buf.
    bool shows(int fd, uintptr_t address) override
    {
        static int last   = 0;
        off_t offset      = 0;
        const size_t size = subject().granularity();
        const int number  = ++last;
        const current here(context_);

        GPU_CALL(cuMemcpyHtoD, address, &number, sizeof(number));
        if (gpu::is_simulated() && !SIM_CALL(cuda_sim_dmabuf_is_real)) {
            offset = lseek(fd, 0, SEEK_CUR); // a file in place of a dma-buf
        }
        void *seen = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, offset);
        if (seen == MAP_FAILED) {
            // A real GPU's dma-buf can be mapped only since CUDA 13.3.
            return !gpu::is_simulated();
        }
        const bool same = memcmp(seen, &number, sizeof(number)) == 0;
        munmap(seen, size);
        return same;
    }

private:
    // Makes a context current during its own lifetime.
    class current {
    public:
        explicit current(CUcontext context)
        {
            GPU_CALL(cuCtxPushCurrent, context);
        }
        ~current() { GPU_CALL(cuCtxPopCurrent, nullptr); }
        current(const current &)            = delete;
        current &operator=(const current &) = delete;
    };

    std::unique_ptr<gpu::segments> segments(unsigned count)
    {
        const current here(context_);
        return std::make_unique<gpu::segments>(count);
    }

    std::unique_ptr<gpu_vendor> gpus_ = find_cuda();
    CUcontext context_                = nullptr;
    std::unique_ptr<gpu::segments> unit_;
    std::map<uintptr_t, std::unique_ptr<gpu::buffer>> buffers_;
    std::map<uintptr_t, std::unique_ptr<gpu::segments>> mapped_;
};

INSTANTIATE_TEST_SUITE_P(
    fake, contract_exporter,
    testing::Values([]() -> std::unique_ptr<exporter_world> {
        return std::make_unique<fake_gpu>();
    }));
INSTANTIATE_TEST_SUITE_P(gpu, contract_exporter,
                         testing::Values(cuda_world::make_if_any));

} // namespace
} // namespace ucx_ib_dmabuf
