// SPDX-License-Identifier: BSD-3-Clause
//
// Handles on host copies, over a fake uct_ib: what others need of the host's
// memory that may be locked, and what a forked process leaves alone.
#include "../../../src/uct/ib_dmabuf/cuda/vendor.h"
#include "../../../src/uct/ib_dmabuf/md/staging_pool.h"
#include "fake_domain.h"
#include <common/gpu.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr size_t mib       = 1 << 20;
constexpr unsigned for_one = UCT_MD_MEM_ACCESS_RMA;

class test_staged : public ::testing::Test {
protected:
    void SetUp() override
    {
        md_     = first_fake_domain();
        other_  = std::make_unique<fake_domain>();
        memory_ = std::make_unique<gpu::buffer>(4 * mib);
        fail_   = std::make_unique<gpu::scoped_fail>(
            "cuMemGetHandleForAddressRange=801");
    }
    void TearDown() override
    {
        md_.reset();
        other_.reset();
        EXPECT_TRUE(fake_ib::now.copies.empty());
        EXPECT_EQ(0u, fake_ib::now.host);
    }

    uct_mem_h stage(fake_domain &md)
    {
        uct_mem_h memh = nullptr;
        EXPECT_EQ(UCS_OK, md.reg(memory_->address(), mib, &memh, for_one));
        EXPECT_FALSE(fake_ib::now.copies.empty());
        return memh;
    }
    void leave_idle(fake_domain &md)
    {
        EXPECT_EQ(UCS_OK, md.dereg(stage(md)));
        EXPECT_EQ(1u, fake_ib::now.copies.size()) << "kept for the next one";
    }
    void expect_host_memory_registers(unsigned calls)
    {
        uct_mem_h memh       = nullptr;
        const unsigned asked = fake_ib::now.asked;

        ASSERT_EQ(UCS_OK, md_->reg(reinterpret_cast<uintptr_t>(host_),
                                   sizeof(host_), &memh));
        EXPECT_EQ(asked + calls, fake_ib::now.asked);
        EXPECT_EQ(UCS_OK, md_->dereg(memh));
    }

    char host_[4096];
    std::unique_ptr<fake_domain> md_, other_;
    std::unique_ptr<gpu::buffer> memory_;
    std::unique_ptr<gpu::scoped_fail> fail_;
};

TEST_F(test_staged, idle_copies_give_way_to_host_memory)
{
    leave_idle(*md_);
    fake_ib::now.locked_max = 1;
    expect_host_memory_registers(2);
    EXPECT_TRUE(fake_ib::now.copies.empty());
    expect_host_memory_registers(1);
}

// One process has one limit, whichever NIC it is for.
TEST_F(test_staged, another_nics_idle_copies_give_way_to_host_memory)
{
    leave_idle(*other_);
    fake_ib::now.locked_max = 1;
    expect_host_memory_registers(2);
    EXPECT_TRUE(fake_ib::now.copies.empty());
}

TEST_F(test_staged, another_nics_idle_copies_give_way_to_a_copy)
{
    leave_idle(*other_);
    fake_ib::now.locked_max = 1;
    uct_mem_h memh          = stage(*md_);
    EXPECT_EQ(1u, fake_ib::now.copies.size());
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

TEST_F(test_staged, host_memory_that_fails_all_the_same_is_told_once)
{
    leave_idle(*md_);
    fake_ib::now.fail = UCS_ERR_IO_ERROR;
    uct_mem_h memh    = nullptr;
    EXPECT_EQ(UCS_ERR_IO_ERROR, md_->reg(reinterpret_cast<uintptr_t>(host_),
                                         sizeof(host_), &memh));
    EXPECT_EQ(2u, fake_ib::now.asked);
    EXPECT_EQ(1u, fake_ib::now.asked_aloud);
    fake_ib::now.fail = UCS_OK;
}

// Loads a library and calls its registering function.
ucs_status_t reg_by(const std::string &library, const char *function,
                    uct_md_h md, uintptr_t address, uct_mem_h *memh)
{
    const std::string path =
        std::string(getenv("top_builddir")) + "/test/gtest/md/.libs/" + library;
    void *loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(nullptr, loaded) << dlerror();
    auto *reg =
        reinterpret_cast<decltype(&ucp_mem_rereg_mds)>(dlsym(loaded, function));
    const ucs_status_t status =
        reg(md, reinterpret_cast<void *>(address), mib, for_one, memh);
    dlclose(loaded);
    return status;
}

// Its calls return to the same addresses, if the loader puts it where the first
// one was.
TEST_F(test_staged, nothing_is_staged_for_a_library_that_takes_anothers_place)
{
    uct_mem_h memh = nullptr;

    ASSERT_EQ(UCS_OK, reg_by("libfake_ucp_first.so", "ucp_mem_rereg_mds",
                             md_->get(), memory_->address(), &memh));
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
    EXPECT_EQ(UCS_ERR_UNSUPPORTED,
              reg_by("libfake_ucp_second.so", "ucp_memh_get_slow", md_->get(),
                     memory_->address(), &memh));
}

// A program that releases memory in the middle of a message harms only itself.
TEST_F(test_staged, nothing_is_written_to_what_took_the_memorys_place)
{
    using namespace ucx_ib_dmabuf;
    const auto gpus  = find_cuda();
    const auto verbs = find_verbs_functions();
    staging_pool pool(*gpus,
                      {ucs_derived_of(md_->get(), uct_ib_md_t)->pd, &verbs}, 0);
    auto staged = pool.start(memory_->address(), mib);
    char found  = 0;

    ASSERT_TRUE(staged);
    staged->bytes()[100]  = 'n';
    const uintptr_t place = memory_->address();
    memory_->release();
    gpu::buffer newer(4 * mib);
    ASSERT_EQ(place, newer.address()) << "tests nothing";
    GPU_CALL(cuMemsetD8, newer.address(), 'x', mib);
    pool.finish(std::move(staged));
    GPU_CALL(cuMemcpyDtoH, &found, newer.address() + 100, 1);
    EXPECT_EQ('x', found);
}

// What it runs ends well, in a process that has the domains and the copies'
// addresses, but neither their keys nor the parent's other threads.
template <typename Body>
void in_child(Body &&body)
{
    const pid_t child = fork();
    int status        = 0;

    if (child == 0) {
        _exit(body() ? 0 : 1);
    }
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
}

TEST_F(test_staged, a_forked_process_leaves_copies_alone)
{
    leave_idle(*other_);
    uct_mem_h memh = stage(*md_);

    in_child([&] {
        md_->dereg(memh);
        md_.reset();
        other_.reset();
        return fake_ib::now.copies.size() == 2;
    });
    EXPECT_EQ(UCS_OK, md_->dereg(memh));
}

TEST_F(test_staged, a_process_that_is_forked_while_copies_give_way_goes_on)
{
    leave_idle(*other_);
    fake_ib::now.locked_max   = 1;
    fake_ib::now.during_dereg = [&] {
        fake_ib::now.during_dereg = nullptr;
        in_child([&] {
            uct_mem_h memh = nullptr;
            md_->reg(reinterpret_cast<uintptr_t>(host_), sizeof(host_), &memh);
            md_.reset();
            other_.reset();
            return true;
        });
    };
    expect_host_memory_registers(2);
}

} // namespace
