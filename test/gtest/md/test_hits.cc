// SPDX-License-Identifier: BSD-3-Clause
//
// What handles of memory that is registered already cost: nobody is asked, and
// nothing is left.
#include "fake_domain.h"
#include <array>
#include <atomic>
#include <common/gpu.h>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <memory>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace {

constexpr size_t mib  = 1 << 20;
constexpr size_t page = 4096;

class test_hits : public ::testing::Test {
protected:
    std::unique_ptr<fake_domain> md_ = first_fake_domain();
};

// It takes a lock that all threads would fight for at each hit.
TEST_F(test_hits, a_hit_does_not_ask_ucxs_cache_of_memory_types)
{
    gpu::buffer pool(mib);
    ASSERT_EQ(UCS_OK, md_->dereg(md_->reg(pool.address(), mib)));

    // It would say that this is host memory; the first look creates it.
    uint64_t info[16]; // ucs_memory_info_t, which grows
    ucx::use_memtype_cache(true);
    ucs_memtype_cache_lookup(pool.pointer(), mib, info);
    ucs_memtype_cache_remove(pool.pointer(), mib);
    ASSERT_EQ(UCS_ERR_NO_ELEM,
              ucs_memtype_cache_lookup(pool.pointer(), mib, info));
    EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(pool.address(), mib)));
    EXPECT_EQ(0u, fake_ib::now.asked);
    ucx::use_memtype_cache(false);
}

// Its keys are those of a registration that ends at any time: the address
// sanitizer sees who reads them afterwards.
TEST_F(test_hits, a_handle_of_memory_that_is_being_released)
{
    std::atomic<uintptr_t> address{0};
    std::atomic<bool> over{false};
    std::thread user([&] {
        while (!over) {
            uct_mem_h memh        = nullptr;
            const uintptr_t start = address;
            if ((start != 0) && (md_->reg(start, mib, &memh) == UCS_OK)) {
                md_->dereg(memh);
            }
        }
    });
    for (int i = 0; i < 2000; ++i) {
        gpu::buffer pool(mib);
        address = pool.address();
        md_->dereg(md_->reg(pool.address(), mib));
    }
    over = true;
    user.join();
}

// A library that is loaded meanwhile has room beside it. One that fills what is
// left between two reservations to the last page has none, and no hooks.
class room_for_a_library {
public:
    room_for_a_library()
    {
        constexpr size_t enough = 1024; // 4 MiB
        for (size_t adjacent = 0; adjacent < enough;) {
            void *const next = mmap(nullptr, piece, PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            adjacent         = (!pieces_.empty() &&
                        (static_cast<char *>(next) + piece == pieces_.back()))
                                   ? adjacent + 1
                                   : 0;
            pieces_.push_back(next);
        }
        munmap(pieces_.back(), enough * piece);
        pieces_.resize(pieces_.size() - enough);
    }
    ~room_for_a_library()
    {
        for (void *each : pieces_) {
            munmap(each, piece);
        }
    }
    room_for_a_library(const room_for_a_library &)            = delete;
    room_for_a_library &operator=(const room_for_a_library &) = delete;

private:
    static constexpr size_t piece = 4096; // no gap is smaller
    std::vector<void *> pieces_;
};

// Through which what is registered may be released from now on.
TEST_F(test_hits, a_hit_hooks_a_runtime_that_was_loaded_since)
{
    gpu::buffer pool(mib);
    ASSERT_EQ(UCS_OK, md_->dereg(md_->reg(pool.address(), mib)));
    ASSERT_EQ(UCS_OK, md_->dereg(md_->reg(pool.address(), mib)));

    const room_for_a_library made;
    void *runtime = dlopen("libcudart.so.12", RTLD_NOW);
    ASSERT_NE(nullptr, runtime) << dlerror();
    const void *reset = dlsym(runtime, "cudaDeviceReset");
    ASSERT_NE(nullptr, reset);
    std::array<char, 8> code{};
    memcpy(code.data(), reset, code.size());
    CUcontext primary = nullptr;
    GPU_CALL(cuDevicePrimaryCtxRetain, &primary, 0); // how a runtime begins
    EXPECT_EQ(0, memcmp(code.data(), reset, code.size()));
    EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(pool.address(), mib)));
    EXPECT_NE(0, memcmp(code.data(), reset, code.size()));
    GPU_CALL(cuDevicePrimaryCtxRelease, 0);
}

// Threads keep handles to use again, whoever made them, until they end.
TEST_F(test_hits, handles_end_with_the_thread_that_gave_them_back)
{
    constexpr unsigned threads = 300, each = 300;
    gpu::buffer pool(mib);
    size_t before = 0;
    for (unsigned i = 0; i < threads; ++i) {
        std::vector<uct_mem_h> handles(each);
        for (uct_mem_h &handle : handles) {
            handle = md_->reg(pool.address(), page);
        }
        std::thread([&] {
            for (uct_mem_h handle : handles) {
                EXPECT_EQ(UCS_OK, md_->dereg(handle));
            }
        }).join();
        if (i == threads / 2) {
            before = mallinfo2().uordblks;
        }
    }
    EXPECT_LT(mallinfo2().uordblks, before + threads / 2 * 64);
}

} // namespace
