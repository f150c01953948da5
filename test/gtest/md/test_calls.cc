// SPDX-License-Identifier: BSD-3-Clause
//
// The driver calls of a registration: none for known host memory, and none for
// registered memory. Also changes of the memory meanwhile.
#include "fake_domain.h"
#include <atomic>
#include <common/gpu.h>
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <pthread.h>
#include <sys/wait.h>
#include <thread>
#include <uct/ib_dmabuf/ucx/ucm.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

constexpr size_t mib = 1 << 20;

// Returns the count of all driver calls that a registration makes.
uint64_t all_calls()
{
    constexpr const char *names[] = {
        "cuPointerGetAttribute",   "cuPointerGetAttributes",
        "cuMemGetAddressRange_v2", "cuMemGetHandleForAddressRange",
        "cuCtxGetDevice",          "cuCtxPushCurrent_v2",
        "cuCtxPopCurrent_v2",      "cuDeviceGet",
        "cuDeviceGetAttribute",    "cuThreadExchangeStreamCaptureMode"};
    auto *count  = gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls");
    uint64_t sum = 0;

    for (const char *name : names) {
        sum += count(name);
    }
    return sum;
}

// Avoids borders of UCX_IB_DMABUF_CHUNK_SIZE, beyond which the neighbours of
// VMM memory are not queried. Addresses are random.
std::unique_ptr<gpu::buffer> memory_within_a_chunk(gpu::memory kind)
{
    constexpr size_t size = 4 * mib, chunk = 4096 * mib;
    std::vector<std::unique_ptr<gpu::buffer>> others;

    for (;;) {
        auto memory = std::make_unique<gpu::buffer>(size, kind);
        if ((memory->address() + size) % chunk > size) {
            return memory;
        }
        others.push_back(std::move(memory));
    }
}

class test_calls : public domain_test {
protected:
    // Returns the calls of a registration and its deregistration.
    uint64_t calls_of(const void *at)
    {
        const uint64_t before = all_calls();

        EXPECT_EQ(UCS_OK,
                  md_->dereg(md_->reg(reinterpret_cast<uintptr_t>(at), mib)));
        return all_calls() - before;
    }
};

TEST_F(test_calls, memory_that_is_registered_costs_none)
{
    { // queries made once per GPU
        gpu::buffer first(mib, gpu::memory::device);
        calls_of(first.pointer());
    }
    // The figures of docs/rcache.md.
    const struct {
        gpu::memory kind;
        uint64_t of_a_miss;
    } kinds[] = {{gpu::memory::device, 11},
                 {gpu::memory::pool, 18},
                 {gpu::memory::vmm, 21}};

    for (const auto &one : kinds) {
        const auto memory = memory_within_a_chunk(one.kind);
        const char *name  = gpu::name_of(one.kind);

        EXPECT_EQ(one.of_a_miss, calls_of(memory->pointer())) << name;
        EXPECT_EQ(0u, calls_of(memory->at(2 * mib))) << name;
    }
}

TEST_F(test_calls, known_host_memory_costs_none)
{
    std::vector<char> host(mib);

    // UCX's cache of types is off, so the type is unknown.
    EXPECT_LT(0u, calls_of(host.data()));
    ucx::use_memtype_cache(true);
    EXPECT_EQ(0u, calls_of(host.data()));
    ucx::use_memtype_cache(false);
}

// UCX's cache of types would report host memory; its first look-up creates it.
TEST_F(test_calls, memory_that_is_registered_is_asked_for_nowhere_else)
{
    gpu::buffer pool(mib);
    uint64_t info[16]; // ucs_memory_info_t, larger in newer UCX

    calls_of(pool.pointer());
    ucx::use_memtype_cache(true);
    ucs_memtype_cache_lookup(pool.pointer(), mib, info);
    ucs_memtype_cache_remove(pool.pointer(), mib);
    ASSERT_EQ(UCS_ERR_NO_ELEM,
              ucs_memtype_cache_lookup(pool.pointer(), mib, info));
    calls_of(pool.pointer());
    EXPECT_EQ(0u, fake_ib::now.asked);
    ucx::use_memtype_cache(false);
}

// The handle's registration may end at any time. AddressSanitizer detects a
// later read of its keys.
TEST_F(test_calls, a_handle_of_memory_that_is_being_released)
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

// IPC memory that is opened twice and closed once: its new region is revoked
// before a handle of it exists.
TEST_F(test_calls, memory_that_is_there_after_its_release_is_registered_anew)
{
    gpu::buffer pool(mib);
    static uintptr_t announced;

    announced = pool.address();
    ucx::set_log_level("debug");
    ucs_log_push_handler([](const char *, unsigned, const char *, int,
                            const void *, const char *format, va_list args) {
        char line[1024];
        vsnprintf(line, sizeof(line), format, args);
        if ((announced != 0) && (strstr(line, ": acquire ") != nullptr)) {
            ucx_ib_dmabuf::ucm_event_t event{};
            event.mem_type.address =
                reinterpret_cast<void *>(std::exchange(announced, 0));
            event.mem_type.size     = mib;
            event.mem_type.mem_type = ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA;
            ucm_event_dispatch(ucx_ib_dmabuf::UCM_EVENT_MEM_TYPE_FREE, &event);
        }
        return 0;
    });
    uct_mem_h memh = nullptr;
    EXPECT_EQ(UCS_OK, md_->reg(pool.address(), mib, &memh));
    ucs_log_pop_handler();
    ucx::set_log_level("warn");
    EXPECT_EQ(0u, announced);
    EXPECT_EQ(0u, fake_ib::now.asked) << "uct_ib takes it for the host's";
    EXPECT_EQ(1u, fake_ib::now.regions.size());
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

// A UCP without CUDA drops entries of its cache only after releases that were
// noted. The entry may be empty, after a refusal: it would hide new memory.
TEST_F(test_calls, a_ucp_without_cuda_drops_what_it_has_of_freed_memory)
{
    ASSERT_FALSE(ucx_ib_dmabuf::all_ucm().front()->has_cuda);
    ucx_ib_dmabuf::registers_unseen = false; // set by other tests
    for (const auto expected : {UCS_OK, UCS_ERR_UNSUPPORTED}) {
        gpu::buffer memory(mib); // deregistered in this thread
        uct_mem_h held = nullptr;
        {
            const gpu::scoped_fail refusal(
                expected == UCS_OK ? "" : "cuMemGetHandleForAddressRange=801");
            EXPECT_EQ(expected, md_->reg(memory.address(), mib, &held,
                                         ucx::access_all | ucx::hide_errors));
        }
        EXPECT_EQ(expected == UCS_OK, !fake_ib::now.regions.empty());
        EXPECT_TRUE(ucx_ib_dmabuf::take_registered(memory.address(), mib));
        memory.release();
        EXPECT_TRUE(fake_ib::now.regions.empty()) << "the handle is held";
        if (held != nullptr) {
            EXPECT_EQ(UCS_OK, md_->dereg(held));
        }
    }
}

// Other libraries' handlers of a fork may release memory before and after ours.
bool releases_in_fork = false;
void release_in_fork()
{
    if (releases_in_fork) {
        ucx_ib_dmabuf::take_registered(0x1000, 1);
    }
}
const int handles_fork =
    pthread_atfork(release_in_fork, release_in_fork, release_in_fork);

TEST_F(test_calls, a_fork_holds_no_lock_that_a_release_takes)
{
    EXPECT_EQ(0, handles_fork);
    ucx_ib_dmabuf::note_registered(0x1000);
    releases_in_fork  = true;
    const pid_t child = fork();
    releases_in_fork  = false;
    if (child == 0) {
        ucx_ib_dmabuf::note_registered(0x1000);
        _exit(ucx_ib_dmabuf::take_registered(0x1000, 1) ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(0, status);
}

// UCP would register with the domain, and each operation would fail.
TEST_F(test_calls, a_domain_too_many_is_left_as_it_is)
{
    std::vector<std::unique_ptr<fake_domain>> all;

    do {
        all.push_back(std::make_unique<fake_domain>());
    } while ((all.size() < 300) && all.back()->takes_cuda());
    EXPECT_EQ(256u, all.size()); // with the fixture's
    all.resize(10);
    EXPECT_TRUE(fake_domain().takes_cuda());
}

} // namespace
