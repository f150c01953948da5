// SPDX-License-Identifier: BSD-3-Clause
//
// Memory pressure: each allocation of the plug-in's own code fails in turn, in
// every function that UCX calls. A call succeeds or returns an error, leaks
// nothing, and works the next time. Nothing may throw: the callers are C.
#include "fake_domain.h"
#include <common/alloc_children.h>
#include <common/elsewhere.h>
#include <common/fds.h>
#include <common/gpu.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>

using alloc_faults::armed;
using alloc_faults::each_in_a_child;
using alloc_faults::plan;

namespace {

constexpr size_t mib         = 1 << 20;
constexpr unsigned aloud     = ucx::access_rma;
constexpr unsigned to_hide   = aloud | ucx::hide_errors;
constexpr unsigned revocable = ucx::invalidate;
constexpr char refused[]     = "cuMemGetHandleForAddressRange=801";

// Formats every message, and prints none.
const int quiet = [] {
    ucx::set_log_level("debug");
    ucs_log_push_handler([](const char *, unsigned, const char *, int,
                            const void *, const char *, va_list) { return 0; });
    return 0;
}();

// The start of a run: a domain, and a pool in GPU memory.
class world {
public:
    explicit world(const char *failure = nullptr)
    {
        ucx::use_memtype_cache(false);
        gpu::use();
        md_ = std::make_unique<fake_domain>();
        // So small that the releasing thread deregisters it.
        pool_ = std::make_unique<gpu::buffer>(mib + mib / 2);
        if (failure != nullptr) {
            fail_ = std::make_unique<gpu::scoped_fail>(failure);
        }
        EXPECT_TRUE(md_->takes_cuda());
        fds_ = count_fds();
    }
    ~world()
    {
        EXPECT_EQ(fds_, count_fds());
        if (md_) { // and all handles are deregistered
            pool_->release();
            EXPECT_TRUE(fake_ib::now.regions.empty());
        }
        md_.reset();
        EXPECT_TRUE(fake_ib::now.regions.empty());
        EXPECT_EQ(0u, fake_ib::now.host);
        EXPECT_EQ(0u, fake_ib::now.domains);
    }

    void close() { md_.reset(); }
    fake_domain &md() { return *md_; }
    gpu::buffer &pool() { return *pool_; }

    uct_mem_h reg() { return md_->reg(pool_->address() + 100, mib); }
    ucs_status_t reg(uct_mem_h *memh, unsigned flags)
    {
        return md_->reg(pool_->address() + 100, mib, memh, flags);
    }
    // Registers, again without pressure if need be. Returns nullptr on failure.
    uct_mem_h reg(plan &what, unsigned flags, ucs_status_t expected = UCS_OK,
                  ucs_status_t failure = UCS_ERR_NO_MEMORY)
    {
        uct_mem_h memh = nullptr;
        ucs_status_t status;
        {
            armed now(what);
            status = reg(&memh, flags);
        }
        EXPECT_TRUE((status == expected) || (status == failure) ||
                    (status == UCS_ERR_BUSY))
            << int{status};
        if (status != UCS_OK) {
            EXPECT_EQ(expected, reg(&memh, flags));
        }
        return memh;
    }

private:
    std::unique_ptr<fake_domain> md_;
    std::unique_ptr<gpu::buffer> pool_;
    std::unique_ptr<gpu::scoped_fail> fail_;
    int fds_ = 0;
};

class test_pressure : public alloc_faults::forking_test {};

TEST_F(test_pressure, opening)
{
    const unsigned count = each_in_a_child([](plan &what) {
        {
            uct_md_h md = nullptr;
            {
                armed now(what);
                ucs_module_global_init();
                md = fake_domain::open("fake0");
            }
            fake_domain::close(md);
        }
        world again;
        uct_mem_h memh = again.reg();
        EXPECT_EQ(UCS_OK, again.md().dereg(memh));
        again.close(); // as releases may be missed after that
    });
    EXPECT_GE(count, 2u);
}

TEST_F(test_pressure, opening_where_no_gpu_exports)
{
    each_in_a_child([](plan &what) {
        gpu::use();
        gpu::scoped_fail fail("cuDeviceGetAttribute=801");
        armed now(what);
        fake_domain md;
        EXPECT_FALSE(md.takes_cuda());
    });
}

TEST_F(test_pressure, a_miss_and_a_hit)
{
    for (const bool hits : {false, true}) {
        const unsigned count = each_in_a_child([&](plan &what) {
            world here;
            uct_mem_h first = hits ? here.reg() : nullptr;
            uct_mem_h memh  = here.reg(what, aloud);
            EXPECT_EQ(UCS_OK, here.md().dereg(memh));
            EXPECT_TRUE(!hits || (here.md().dereg(first) == UCS_OK));
        });
        EXPECT_GE(count, hits ? 1u : 3u);
    }
}

TEST_F(test_pressure, a_registration_that_is_declined)
{
    for (const int by_the_nic : {0, EOPNOTSUPP}) { // else by the driver
        each_in_a_child([&](plan &what) {
            world here((by_the_nic == 0) ? refused : nullptr);
            fake_ib::now.fail_verbs = by_the_nic;
            here.reg(what, to_hide, UCS_ERR_UNSUPPORTED);
        });
    }
}

TEST_F(test_pressure, host_memory)
{
    each_in_a_child([](plan &what) {
        world here;
        char host[100];
        uct_mem_h memh = nullptr;
        {
            armed now(what);
            EXPECT_EQ(UCS_OK, here.md().reg(reinterpret_cast<uintptr_t>(host),
                                            sizeof(host), &memh));
        }
        EXPECT_EQ(UCS_OK, here.md().dereg(memh));
    });
}

TEST_F(test_pressure, packing_a_key)
{
    for (unsigned flags : {0u, revocable}) {
        const unsigned count = each_in_a_child([&](plan &what) {
            world here;
            uct_mem_h memh = here.reg();
            uint32_t key   = 0;
            ucs_status_t status;
            {
                armed now(what);
                status = here.md().pack(memh, flags, &key);
            }
            // A revocable key needs a registration.
            EXPECT_TRUE(
                (status == UCS_OK) ||
                ((flags == revocable) && (status == UCS_ERR_NO_RESOURCE)));
            EXPECT_EQ(status == UCS_OK, fake_ib::find(key) != nullptr);
            completion told;
            EXPECT_EQ(UCS_OK, here.md().invalidate(memh, &told));
            EXPECT_EQ(1u, told.told);
        });
        EXPECT_EQ(flags == revocable, count > 0);
    }
}

// What must work without memory.
TEST_F(test_pressure, ends_events_and_forks_need_no_memory)
{
    auto deregister = [](plan &what) {
        world here;
        uct_mem_h memh = here.reg();
        armed now(what);
        EXPECT_EQ(UCS_OK, here.md().dereg(memh));
    };
    auto invalidate = [](plan &what) {
        world here;
        uct_mem_h own = here.reg(), shared = here.reg(), other = here.reg();
        uint32_t key = 0;
        completion own_told, shared_told;
        EXPECT_EQ(UCS_OK, here.md().pack(own, revocable, &key));
        EXPECT_EQ(UCS_OK, here.md().pack(shared, 0, &key));
        armed now(what);
        EXPECT_EQ(UCS_OK, here.md().invalidate(own, &own_told));
        EXPECT_EQ(UCS_OK, here.md().invalidate(shared, &shared_told));
        EXPECT_EQ(1u, own_told.told);
        EXPECT_EQ(1u, shared_told.told);
        EXPECT_EQ(UCS_OK, here.md().dereg(other));
    };
    auto close = [](plan &what) {
        world here;
        EXPECT_EQ(UCS_OK, here.md().dereg(here.reg()));
        armed now(what);
        here.close();
        EXPECT_TRUE(fake_ib::now.regions.empty());
    };
    auto release = [](plan &what) {
        world here;
        EXPECT_EQ(UCS_OK, here.md().dereg(here.reg()));
        ASSERT_EQ(1u, fake_ib::now.regions.size());
        ucx_ib_dmabuf::ucm_event_t event{};
        event.mem_type.address  = here.pool().pointer();
        event.mem_type.size     = here.pool().size();
        event.mem_type.mem_type = ucx_ib_dmabuf::UCS_MEMORY_TYPE_CUDA;
        armed now(what);
        ucm_event_dispatch(ucx_ib_dmabuf::UCM_EVENT_MEM_TYPE_FREE, &event);
        EXPECT_TRUE(fake_ib::now.regions.empty());
    };
    auto forks = [](plan &what) {
        world here;
        uct_mem_h memh = here.reg();
        {
            armed now(what);
            EXPECT_TRUE(in_child([&] { return !what.failed; }));
        }
        EXPECT_EQ(UCS_OK, here.md().dereg(memh));
    };

    EXPECT_EQ(0u, each_in_a_child(deregister));
    EXPECT_EQ(0u, each_in_a_child(invalidate));
    EXPECT_EQ(0u, each_in_a_child(close));
    EXPECT_EQ(0u, each_in_a_child(release));
    EXPECT_EQ(0u, each_in_a_child(forks));
}

// The counters are written when the process ends.
TEST_F(test_pressure, the_counters_need_no_memory)
{
    char path[]  = "/tmp/test_pressure.XXXXXX";
    const int fd = mkstemp(path);
    int status   = 0;

    ASSERT_GE(fd, 0);
    fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        static plan all{1, true};
        setenv("UCX_IB_DMABUF_STATS", path, 1);
        {
            world here;
        }
        // Armed to the very end, as a destructor of the library writes them.
        static const auto *now = new armed(all);
        exit(now == nullptr);
    }
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
    char line[4096] = "";
    EXPECT_GT(read(fd, line, sizeof(line) - 1), 0);
    close(fd);
    unlink(path);
    EXPECT_EQ('{', line[0]);
    EXPECT_NE(nullptr, strstr(line, "\"refuted\": 0, ")) << line;
    EXPECT_NE(nullptr, strstr(line, "}\n")) << line;
}

} // namespace
