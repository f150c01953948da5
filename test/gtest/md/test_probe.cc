// SPDX-License-Identifier: BSD-3-Clause
//
// Whether a NIC offers GPU memory, by trials with GPUs: some are not in use,
// some work with the NIC, and some do not.
#include <atomic>
#include <common/elsewhere.h>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/md/probe.h>
#include <vector>

using namespace ucx_ib_dmabuf;

namespace {

constexpr size_t length = 4096;

// Allocates buffers only on GPUs that are in use.
class gpus final : public gpu_vendor {
public:
    explicit gpus(std::vector<bool> in_use) : in_use_(std::move(in_use)) {}

    int gpu_count() override { return static_cast<int>(in_use_.size()); }
    std::unique_ptr<probe_buffer> allocate_probe_buffer(int gpu) override
    {
        if (!in_use_.at(static_cast<size_t>(gpu))) {
            return nullptr;
        }
        ++allocated;
        return std::make_unique<counted>(out, gpu);
    }
    ucs_status_t export_range(uintptr_t, size_t, int *fd) override
    {
        EXPECT_EQ(1, out);
        *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return UCS_OK;
    }

    ucs_status_t describe(uintptr_t, allocation *) override { return UCS_OK; }
    bool is_current(uintptr_t, uint64_t) override { return true; }
    size_t granularity() const override { return length; }
    const char *name() const noexcept override { return "test"; }
    ucs_memory_type_t memory_type() const noexcept override
    {
        return UCS_MEMORY_TYPE_CUDA;
    }
    bool may_be_device(uintptr_t, size_t) const noexcept override
    {
        return true;
    }
    size_t max_registered(int) override { return SIZE_MAX; }
    ucs_status_t copy_to_host(void *, uintptr_t, size_t) override
    {
        return UCS_OK;
    }
    ucs_status_t copy_from_host(uintptr_t, const void *, size_t) override
    {
        return UCS_OK;
    }
    void watch(listener &) noexcept override {}

    std::vector<bool> in_use_;
    int allocated = 0;
    int out       = 0;

private:
    struct counted final : probe_buffer {
        counted(int &all, int gpu) : all_(all)
        {
            ++all_;
            address      = length * static_cast<uintptr_t>(gpu + 1);
            this->length = ::length;
        }
        ~counted() override { --all_; }

        int &all_;
    };
};

// Returns a preset status for each GPU, after fail_first failures.
class nic final : public registrar {
public:
    explicit nic(std::vector<ucs_status_t> answers)
        : answers_(std::move(answers))
    {
    }
    ~nic() override { EXPECT_EQ(0, registered_); }

    ucs_status_t reg(dmabuf_source &memory, int gpu, uintptr_t, size_t,
                     void **handle) override
    {
        int fd = -1;

        EXPECT_EQ(UCS_OK, memory.get(mapping_type::standard, &fd));
        if (during_reg) {
            during_reg(fd);
        }
        ++asked;
        if (fail_first-- > 0) {
            return UCS_ERR_NO_MEMORY;
        }
        const ucs_status_t answer = answers_.at(static_cast<size_t>(gpu));
        registered_ += answer == UCS_OK;
        *handle = this;
        return answer;
    }
    void dereg(void *handle) override
    {
        EXPECT_EQ(this, handle);
        --registered_;
    }

    int asked      = 0;
    int fail_first = 0;
    std::function<void(int fd)> during_reg;

private:
    std::vector<ucs_status_t> answers_;
    int registered_ = 0;
};

constexpr ucs_status_t fails = UCS_ERR_INVALID_PARAM;

struct scene {
    std::vector<bool> in_use;
    std::vector<ucs_status_t> answers;
    bool offered;
};

TEST(test_probe, a_nic_is_offered_unless_all_that_can_be_tried_fails)
{
    for (const scene &one :
         {scene{{}, {}, true}, scene{{false, false}, {fails, fails}, true},
          scene{{true, false}, {UCS_OK, fails}, true},
          scene{{true, true}, {fails, UCS_OK}, true},
          scene{{true, true}, {UCS_OK, fails}, true},
          scene{{true, false}, {fails, UCS_OK}, false},
          scene{{true, true}, {fails, fails}, false},
          scene{{true}, {UCS_ERR_BUSY}, true}}) {
        trials all;
        gpus vendor(one.in_use);
        nic with(one.answers);

        EXPECT_EQ(one.offered, all.takes_memory(vendor, with, "nic", 0));
        EXPECT_EQ(0, vendor.out);
    }
}

TEST(test_probe, a_pair_is_tried_once)
{
    trials all;
    gpus vendor({true, false});
    nic with({fails, UCS_OK});
    nic other({UCS_OK, UCS_OK});

    EXPECT_FALSE(all.takes_memory(vendor, with, "first", 0));
    const int asked = with.asked;
    EXPECT_FALSE(all.takes_memory(vendor, with, "first", 0));
    EXPECT_EQ(asked, with.asked);
    EXPECT_EQ(1, vendor.allocated);
    EXPECT_TRUE(all.takes_memory(vendor, other, "second", 0));
    // The other GPU is in use now.
    vendor.in_use_[1] = true;
    EXPECT_TRUE(all.takes_memory(vendor, with, "first", 0));
    EXPECT_EQ(asked + 1, with.asked);
}

// The NIC may reach less after a change.
TEST(test_probe, a_pair_is_tried_again_when_its_path_has_changed)
{
    trials all;
    gpus vendor({true});
    nic before({UCS_OK});
    nic after({fails});

    for (uint64_t changes : {0, 0, 1, 1}) {
        EXPECT_TRUE(all.takes_memory(vendor, before, "nic", changes));
    }
    EXPECT_EQ(2, before.asked);
    EXPECT_FALSE(all.takes_memory(vendor, after, "nic", 2));
}

TEST(test_probe, what_passes_is_no_failure)
{
    trials all;
    gpus vendor({true});
    nic with({UCS_OK});

    with.fail_first = 3;
    EXPECT_TRUE(all.takes_memory(vendor, with, "nic", 0));
    EXPECT_EQ(4, with.asked);
    with.fail_first = 4; // no room this time
    EXPECT_FALSE(all.takes_memory(vendor, with, "other", 0));
    EXPECT_TRUE(all.takes_memory(vendor, with, "other", 0));
    EXPECT_EQ(9, with.asked);
}

TEST(test_probe, a_child_of_fork_has_nothing_of_what_is_being_tried)
{
    trials all;
    gpus vendor({true});
    nic with({UCS_OK});
    bool good = false;

    with.during_reg = [&](int fd) {
        good = in_child([&] { return fcntl(fd, F_GETFD) == -1; });
        EXPECT_NE(-1, fcntl(fd, F_GETFD));
    };
    EXPECT_TRUE(all.takes_memory(vendor, with, "nic", 0));
    EXPECT_TRUE(good);
}

TEST(test_probe, a_child_of_fork_waits_for_no_thread_that_asks)
{
    trials all;
    gpus vendor({true});
    nic with({UCS_OK});
    std::atomic<bool> over{false};
    const auto ask = [&] { return all.takes_memory(vendor, with, "nic", 0); };
    const auto ask_in_time = [&] {
        alarm(10); // ends a deadlock
        return ask();
    };

    EXPECT_TRUE(ask());
    std::thread other([&] {
        while (!over) {
            ask();
        }
    });
    for (int i = 0; i < 50 && !HasFailure(); ++i) {
        EXPECT_TRUE(in_child(ask_in_time));
    }
    over = true;
    other.join();
}

} // namespace
