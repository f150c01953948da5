// SPDX-License-Identifier: BSD-3-Clause
//
// The memory domain's messages, over a fake uct_ib.
#include "fake_domain.h"
#include <algorithm>
#include <common/breakpoint.h>
#include <common/elsewhere.h>
#include <common/gpu.h>
#include <cstdlib>
#include <cuda_sim/cuda_sim.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <uct/ib_dmabuf/stats/counters.h>
#include <uct/ib_dmabuf/ucx/log.h>
#include <uct/ib_dmabuf/ucx/ucm.h>
#include <unistd.h>
#include <vector>

extern "C" ucx_ib_dmabuf::ucs_list_link_t ucs_config_global_list;

namespace {

constexpr size_t mib       = 1 << 20;
constexpr unsigned to_hide = ucx::access_all | ucx::hide_errors;
constexpr unsigned aloud   = ucx::access_rma;

// Messages of one level that UCX would have printed.
using ucx_ib_dmabuf::log_level;
log_level wanted;
std::vector<std::string> messages;

int keep_message(const char *, unsigned, const char *, int level, const void *,
                 const char *pattern, va_list args)
{
    char line[1000];

    if (log_level{level} == wanted) {
        vsnprintf(line, sizeof(line), pattern, args);
        messages.emplace_back(line);
    }
    return 0;
}

class test_messages : public ::testing::Test {
protected:
    void SetUp() override
    {
        md_ = first_fake_domain();
        ucs_log_push_handler(keep_message);
    }
    void TearDown() override
    {
        md_.reset(); // ends the cache's thread
        ucs_log_pop_handler();
        ucx::set_log_level("warn");
    }

    // Records only messages of this level.
    static void listen(log_level level, const char *name = "warn")
    {
        wanted = level;
        messages.clear();
        ucx::set_log_level(name);
    }
    static bool said(const char *text)
    {
        return std::ranges::any_of(messages, [&](const std::string &one) {
            return one.find(text) != std::string::npos;
        });
    }

    std::unique_ptr<fake_domain> md_;
};

TEST_F(test_messages, a_range_that_leaves_gpu_memory_is_an_error)
{
    gpu::buffer buffer(4 * mib);
    const uintptr_t start = buffer.address(), end = start + buffer.size();
    uct_mem_h memh = nullptr;

    for (unsigned flags : {ucx::access_all, aloud, to_hide}) {
        for (auto [address, length] : {std::pair{start, size_t{1} << 40},
                                       {start, SIZE_MAX - 1},
                                       {end - 1, SIZE_MAX - end + 1},
                                       {end - 4096, size_t{8192}}}) {
            listen(log_level::error);
            EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                      md_->reg(address, length, &memh, flags));
            EXPECT_EQ((flags == to_hide) ? 0u : 1u, messages.size());
            const std::string named = std::to_string(length) + " bytes";
            EXPECT_EQ(flags != to_hide, said("go beyond"));
            EXPECT_EQ(flags != to_hide, said(named.c_str()));
        }
        EXPECT_EQ(UCS_OK, md_->reg(end - 1, 1, &memh, flags));
        EXPECT_EQ(UCS_OK, md_->dereg(memh));
    }
    EXPECT_EQ(0u, fake_ib::now.asked);
}

// Peer memory takes several allocations, even released ones, as one range.
TEST_F(test_messages, a_range_over_allocations_is_left_to_peer_memory)
{
    gpu::buffer buffer(4 * mib);
    uct_mem_h memh = nullptr;

    fake_ib::now.memory_types |= 1u << ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA;
    fake_domain with_peer_memory("fake_peer");
    listen(log_level::error);
    ASSERT_EQ(UCS_OK, with_peer_memory.reg(buffer.address(), size_t{1} << 40,
                                           &memh, aloud));
    EXPECT_EQ(1u, fake_ib::now.asked);
    EXPECT_EQ(UCS_OK, with_peer_memory.dereg(memh));
    EXPECT_TRUE(messages.empty());
}

// Runs in a process of its own, as the start happens once per process.
TEST(test_forks, a_child_of_a_start_is_left_alone)
{
    if (getenv("CUDA_SIM_DELAY") == nullptr) {
        const std::string program =
            std::filesystem::read_symlink("/proc/self/exe");
        EXPECT_EQ(
            0, system(("CUDA_SIM_DELAY=cuDeviceGetCount=60000000 " + program +
                       " --gtest_brief=1 --gtest_filter=test_forks.*")
                          .c_str()));
        return;
    }
    fake_ib::now = {};
    signal(SIGUSR1, [](int) {});
    ucs_module_global_init();
    auto *calls = gpu::entry<decltype(cuda_sim_calls)>("cuda_sim_calls");
    std::thread starts([] { EXPECT_TRUE(fake_domain().takes_cuda()); });
    while (calls("cuDeviceGetCount") == 0) {
        std::this_thread::yield();
    }
    EXPECT_TRUE(in_child([&] {
        alarm(60); // ends a deadlock
        wanted = log_level::warn;
        ucs_log_push_handler(keep_message);
        const bool first = fake_domain().takes_cuda();
        return !first && !fake_domain().takes_cuda() && (messages.size() == 1);
    }));
    pthread_kill(starts.native_handle(), SIGUSR1); // ends the delay
    starts.join();
}

// UCX_IB_GPU_DIRECT_RDMA: with "n", uct_ib supports no dma-bufs.
TEST_F(test_messages, a_nic_that_is_to_reach_no_gpu_is_left_alone)
{
    auto &list = ucs_config_global_list;
    const void *fields[22]{"GPU_DIRECT_RDMA"};
    ucx_ib_dmabuf::config_entry table{
        "IB memory domain", "IB_", fields, sizeof(int), {list.prev, &list}, 0};

    list.prev = list.prev->next = &table.list;
    listen(log_level::warn);
    for (const int value : {2, 1, 0}) { // try, y, n
        fake_ib::now.flags *= unsigned{value != 0};
        fake_domain md("fake_alone", &value);
        EXPECT_EQ(value != 0, md.takes_cuda()) << value;
        EXPECT_TRUE(messages.empty()) << value;
    }
    list.prev       = table.list.prev;
    list.prev->next = &list;
}

// UCP rounds up to 16 bytes, UCX 1.16 to 64 bytes.
TEST_F(test_messages, a_range_that_ucp_rounded_up_is_inside)
{
    gpu::buffer buffer(1000);

    for (size_t length : {1000, 1008, 1024}) {
        EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(buffer.address(), length)));
    }
    for (size_t length : {1009, 1040, 1088}) {
        uct_mem_h memh = nullptr;
        EXPECT_EQ(UCS_ERR_INVALID_PARAM,
                  md_->reg(buffer.address(), length, &memh, to_hide))
            << length;
    }
}

TEST_F(test_messages, decisions_are_traced)
{
    gpu::buffer buffer(4 * mib);
    gpu::buffer other(mib);
    char host[100] = "";
    uct_mem_h memh = nullptr;
    uint32_t key   = 0;

    listen(log_level::trace, "trace");
    EXPECT_EQ(UCS_OK, md_->reg(reinterpret_cast<uintptr_t>(host), 100, &memh));
    EXPECT_TRUE(said("fake0: 100 bytes at")) << "passed on";
    EXPECT_EQ(UCS_OK, md_->dereg(memh));

    EXPECT_EQ(UCS_OK, md_->reg(buffer.address(), mib, &memh));
    EXPECT_EQ(UCS_OK, md_->pack(memh, ucx::invalidate, &key));
    EXPECT_TRUE(said("have a registration of their own"));
    EXPECT_EQ(UCS_OK, md_->dereg(memh));

    listen(log_level::debug, "debug");
    gpu::scoped_fail fail("cuMemGetHandleForAddressRange=801");
    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              md_->reg(other.address(), mib, &memh, to_hide));
    EXPECT_TRUE(said("left to UCP: Unsupported operation"));
}

// After a NIC's removal uverbs fails all calls, for good. The NIC's regions are
// lost, so their memory is registered again.
TEST_F(test_messages, a_nic_that_went_is_told_once_and_keeps_nothing)
{
    gpu::buffer first(mib), second(mib); // deregistered in this thread
    uct_mem_h memh = nullptr;

    ASSERT_EQ(UCS_OK, md_->dereg(md_->reg(first.address(), mib)));
    ASSERT_EQ(1u, fake_ib::now.regions.size());

    listen(log_level::warn);
    fake_ib::now.gone = true;
    EXPECT_EQ(UCS_ERR_IO_ERROR, md_->reg(second.address(), mib, &memh));
    EXPECT_EQ(UCS_ERR_IO_ERROR, md_->reg(second.address(), mib, &memh));
    EXPECT_TRUE(said("removed or reset"));
    const auto told = messages.size();
    first.release();  // deregisters; uct_ib would log that
    second.release(); // has nothing to deregister
    EXPECT_EQ(told, messages.size());

    fake_ib::now.gone = false;
    for (ibv_mr *mr : fake_ib::now.regions) {
        delete mr; // the kernel ended them with the NIC
    }
    fake_ib::now.regions.clear();
    gpu::buffer third(mib);
    EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(third.address(), mib)));
    EXPECT_EQ(1u, fake_ib::now.regions.size());
}

// The kernel returns EAGAIN at a cgroup's limit (rdmacg_try_charge).
TEST_F(test_messages, what_is_idle_goes_where_a_nic_has_no_keys_left)
{
    gpu::buffer first(mib), second(mib);
    uct_mem_h memh = nullptr, other = nullptr;

    listen(log_level::warn);
    fake_ib::now.most = 1;
    for (const gpu::buffer *each : {&first, &second}) {
        ASSERT_EQ(UCS_OK, md_->reg(each->address(), mib, &memh));
        ASSERT_EQ(UCS_OK, md_->dereg(memh));
    }
    ASSERT_EQ(UCS_OK, md_->reg(first.address(), mib, &memh));
    EXPECT_EQ(UCS_ERR_NO_MEMORY,
              md_->reg(second.address(), mib, &other, to_hide));
    EXPECT_TRUE(said("rdma.max"));
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

// The messages name the NIC, the range and the cause.
TEST_F(test_messages, what_the_cache_does_is_told)
{
    listen(log_level::debug, "debug");
    gpu::buffer buffer(mib); // deregistered in this thread
    uct_mem_h memh  = nullptr;
    const auto line = [&](const char *what, const char *end) {
        char text[100];
        snprintf(text, sizeof(text), "fake0: %s 0x%zx..0x%zx: %s", what,
                 size_t(buffer.address()), size_t(buffer.address() + mib), end);
        return std::string(text);
    };

    EXPECT_EQ(UCS_OK, md_->reg(buffer.address(), mib, &memh));
    EXPECT_TRUE(said(line("register", "Success").c_str()));
    EXPECT_TRUE(said("fake0: acquire 0x"));
    const std::string gone = line("deregister", "released");
    buffer.release();
    EXPECT_TRUE(said(gone.c_str())) << "UCP keeps the handle for longer";
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

// Runs last, as the checks stay on. UCP then needs a registration for each
// operation: it drops cached handles of unmapped memory.
TEST_F(test_messages, where_each_use_is_checked_ucp_keeps_no_handle)
{
    using namespace ucx_ib_dmabuf;
    gpu::buffer buffer(mib);
    static size_t dropped;
    const auto use = [&](size_t length) {
        const uint64_t before = process_counters.get("identity_checks");
        EXPECT_EQ(UCS_OK, md_->dereg(md_->reg(buffer.address(), length)));
        return process_counters.get("identity_checks") - before;
    };

    use(1001);
    EXPECT_EQ(0u, use(1001));
    EXPECT_EQ(1u, process_counters.get("hooks_complete"));
    ASSERT_EQ(UCS_OK, all_ucm().front()->set_event_handler(
                          UCM_EVENT_VM_UNMAPPED | UCM_EVENT_FLAG_NO_INSTALL, 0,
                          [](ucm_event_type_t, ucm_event_t *event, void *) {
                              dropped += event->vm_unmapped.size;
                          },
                          nullptr));
    std::unique_ptr<gpu::buffer> other;
    {
        // A hook that is overwritten, as by a uprobe, may miss a release.
        const ucx_ib_dmabuf::test::breakpoint uprobe(
            gpu::entry<void>("cuMemFree_v2"));
        other = std::make_unique<gpu::buffer>(mib); // its event notices that
    }
    EXPECT_EQ(0u, process_counters.get("hooks_complete"));
    for (size_t length : {1001, 1001, 2001}) {
        dropped = 0;
        EXPECT_EQ(1u, use(length));
        EXPECT_EQ(length, dropped);
    }
}

} // namespace
