// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "contract.h"
#include <common/elsewhere.h>
#include <common/fds.h>
#include <fcntl.h>
#include <optional>
#include <uct/ib_dmabuf/rcache/registrar.h>
#include <unistd.h>

namespace ucx_ib_dmabuf {

// What the contract of a registrar (rcache/registrar.h) is tested with.
class registrar_world {
public:
    virtual ~registrar_world() = default;

    virtual registrar &subject() = 0;
    // A dma-buf of the memory at address().
    virtual int dmabuf(size_t size) = 0;
    uintptr_t address() const { return uintptr_t{1} << 40; }
    // Whether the NIC reaches, at the address, the dma-buf's byte `at`.
    virtual bool reaches(void *handle, uintptr_t address, size_t at) = 0;
    // Announces a call that is wrong on purpose.
    virtual void mistake() {}
};

class contract_registrar : public contract<registrar_world> {
protected:
    static constexpr size_t size = 1 << 20;

    // Exports the file of a descriptor, a dma-buf or not.
    struct given final : exporter {
        explicit given(int dmabuf) : fd_(dmabuf) {}
        ucs_status_t describe(uintptr_t, allocation *) override
        {
            return UCS_ERR_NO_ELEM;
        }
        bool is_current(uintptr_t, uint64_t) override { return true; }
        ucs_status_t export_range(uintptr_t, size_t, int *fd) override
        {
            *fd = fd_;
            return UCS_OK;
        }
        size_t granularity() const override { return 4096; }

        const int fd_;
    };

    void SetUp() override
    {
        contract::SetUp();
        fd_      = world_->dmabuf(size);
        address_ = world_->address();
        memory_.emplace(fd_);
        exports_.emplace(*memory_, address_, size);
        exports_->get(mapping_type::standard, &fd_);
    }
    ucs_status_t reg(size_t length, void **handle)
    {
        return subject_->reg(*exports_, 0, address_, length, handle);
    }
    void close_fd() { exports_->drop(mapping_type::standard); }
    void expect_refused(int fd)
    {
        given memory(fd);
        dmabuf_exports exports(memory, address_, size);
        void *handle = this;

        world_->mistake();
        EXPECT_NE(UCS_OK, subject_->reg(exports, 0, address_, size, &handle))
            << fd;
        EXPECT_EQ(this, handle);
    }

    uintptr_t address_ = 0;
    int fd_            = -1;
    std::optional<given> memory_;
    std::optional<dmabuf_exports> exports_;
};

TEST_P(contract_registrar, the_fd_stays_the_callers)
{
    const int before = count_fds();
    void *handle     = nullptr;

    ASSERT_EQ(UCS_OK, reg(size, &handle));
    EXPECT_EQ(before, count_fds());
    EXPECT_NE(-1, fcntl(fd_, F_GETFD));
    subject_->dereg(handle);
    EXPECT_NE(-1, fcntl(fd_, F_GETFD));
    EXPECT_EQ(before, count_fds());
}

// The dma-buf may be longer than the registration.
TEST_P(contract_registrar, the_memory_is_reached_under_its_addresses)
{
    const size_t at = 5678;
    void *handle    = nullptr;

    for (size_t length : {size, size_t{8192}}) {
        ASSERT_EQ(UCS_OK, reg(length, &handle));
        EXPECT_TRUE(world_->reaches(handle, address_ + at, at));
        subject_->dereg(handle);
    }
}

TEST_P(contract_registrar, registrations_outlive_the_fd)
{
    void *handle = nullptr;

    ASSERT_EQ(UCS_OK, reg(size, &handle));
    close_fd();
    EXPECT_TRUE(world_->reaches(handle, address_ + 1, 1));
    subject_->dereg(handle);
}

TEST_P(contract_registrar, one_fd_is_registered_twice)
{
    void *first  = nullptr;
    void *second = nullptr;

    for (void **handle : {&first, &second}) {
        ASSERT_EQ(UCS_OK, reg(size, handle));
    }
    EXPECT_NE(first, second);
    subject_->dereg(first);
    EXPECT_TRUE(world_->reaches(second, address_ + 7, 7));
    subject_->dereg(second);
}

TEST_P(contract_registrar, what_is_no_dmabuf_is_refused)
{
    const int before = count_fds();
    const int file   = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int closed = dup(fd_);

    close(closed);
    for (int fd : {-1, closed, file}) {
        expect_refused(fd); // closes it
    }
    EXPECT_EQ(before, count_fds());
    close_fd();
    expect_refused(fd_);
}

TEST_P(contract_registrar, ranges_beyond_the_dmabuf_are_refused)
{
    void *handle = this;

    for (size_t length : {size + 4096, 2 * size, size_t{0}}) {
        world_->mistake();
        EXPECT_NE(UCS_OK, reg(length, &handle)) << length;
    }
    EXPECT_EQ(this, handle);
}

TEST_P(contract_registrar, every_thread_may_register)
{
    in_threads(4, [&](unsigned) {
        for (int times = 0; times < 10; ++times) {
            void *handle = nullptr;
            ASSERT_EQ(UCS_OK, reg(size, &handle));
            subject_->dereg(handle);
        }
    });
}

} // namespace ucx_ib_dmabuf
