// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <uct/ib_dmabuf/path/path_check.h>
#include <unistd.h>
#include <vector>

namespace path_test {

using namespace ucx_ib_dmabuf;

// GPUs with host memory. Exports memory files, which verbs_sim accepts as
// dma-bufs, as cuda/ does.
class path_gpu final : public gpu_vendor {
public:
    bool coherent          = false;
    bool knows_pcie        = true; // CUDA 12.8 or later
    ucs_status_t fail      = UCS_OK;
    ucs_status_t fail_pcie = UCS_OK;
    // Number of exports in each mapping, and the length of the last one.
    unsigned standard = 0, pcie = 0;
    size_t exported = 0;

    // The GPUs with probe buffers. The others are not in use.
    std::vector<bool> in_use{true};
    size_t page        = 4096;
    size_t probe_size  = 2 << 20;
    unsigned allocated = 0;
    int live           = 0;  // probe buffers that are not freed
    int probed         = -1; // the GPU of the last one

    bool copies_fail = false;
    unsigned late    = 0; // this many reads return stale zeros

    std::vector<int> gpus_in_use() override
    {
        std::vector<int> found;
        for (size_t gpu = 0; gpu < in_use.size(); ++gpu) {
            if (in_use[gpu]) {
                found.push_back(static_cast<int>(gpu));
            }
        }
        return found;
    }
    std::unique_ptr<probe_buffer> allocate_probe_buffer(int gpu) override
    {
        if (!in_use.at(static_cast<size_t>(gpu))) {
            return nullptr;
        }
        ++allocated;
        probed = gpu;
        return std::make_unique<counted>(live, probe_size);
    }
    ucs_status_t export_range(uintptr_t, size_t length, int *fd) override
    {
        if (fail == UCS_OK) {
            ++standard;
            exported = length;
            *fd      = make(length, false);
        }
        return fail;
    }
    ucs_status_t export_range_pcie(uintptr_t, size_t length, int *fd) override
    {
        if ((fail != UCS_OK) || (fail_pcie != UCS_OK)) {
            return (fail != UCS_OK) ? fail : fail_pcie;
        }
        if (coherent && !knows_pcie) {
            return UCS_ERR_UNSUPPORTED;
        }
        ++pcie;
        exported = length;
        *fd      = make(length, coherent);
        return UCS_OK;
    }
    ucs_status_t copy_to_host(void *host, uintptr_t device,
                              size_t length) override
    {
        if (late > 0) {
            --late;
            memset(host, 0, length);
        } else {
            memcpy(host, reinterpret_cast<void *>(device), length);
        }
        return copies_fail ? UCS_ERR_IO_ERROR : UCS_OK;
    }
    ucs_status_t copy_from_host(uintptr_t device, const void *host,
                                size_t length) override
    {
        memcpy(reinterpret_cast<void *>(device), host, length);
        return copies_fail ? UCS_ERR_IO_ERROR : UCS_OK;
    }

    static int make(size_t length, bool in_pcie)
    {
        const int fd = memfd_create("dma-buf", MFD_CLOEXEC);

        if ((ftruncate(fd, static_cast<off_t>(length)) != 0) ||
            (in_pcie && (fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) != 0))) {
            return -1;
        }
        return fd;
    }

    // path/ does not call these.
    ucs_status_t describe(uintptr_t, allocation *) override
    {
        return UCS_ERR_NO_ELEM;
    }
    bool is_current(uintptr_t, uint64_t) override { return false; }
    bool may_be_device(uintptr_t, size_t) const noexcept override
    {
        return true;
    }
    size_t max_registered(int) override { return SIZE_MAX; }
    void watch(listener &) noexcept override {}

    size_t granularity() const override { return page; }
    const char *name() const noexcept override { return "test"; }
    ucs_memory_type_t memory_type() const noexcept override
    {
        return UCS_MEMORY_TYPE_CUDA;
    }

private:
    struct counted final : probe_buffer {
        counted(int &all, size_t size) : memory(size / 8), live(all)
        {
            ++live;
            address = reinterpret_cast<uintptr_t>(memory.data());
            length  = size;
        }
        ~counted() override { --live; }

        std::vector<uint64_t> memory;
        int &live;
    };
};

} // namespace path_test
