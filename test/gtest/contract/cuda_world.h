// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "exporter.h"
#include <common/gpu.h>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <uct/ib_dmabuf/gpu/cuda/cuda_vendor.h>

// The GPU that libcuda.so.1 provides, simulated or real.
class cuda_world final : public ucx_ib_dmabuf::exporter_world {
public:
    static std::unique_ptr<exporter_world> make_if_any()
    {
        return ucx_ib_dmabuf::find_cuda() ? std::make_unique<cuda_world>()
                                          : nullptr;
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

    ucx_ib_dmabuf::exporter &subject() override { return *gpus_; }
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

    std::unique_ptr<ucx_ib_dmabuf::gpu_vendor> gpus_ =
        ucx_ib_dmabuf::find_cuda();
    CUcontext context_ = nullptr;
    std::unique_ptr<gpu::segments> unit_;
    std::map<uintptr_t, std::unique_ptr<gpu::buffer>> buffers_;
    std::map<uintptr_t, std::unique_ptr<gpu::segments>> mapped_;
};
