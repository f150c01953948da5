// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/elsewhere.h>
#include <common/fds.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <uct/ib_dmabuf/gpu/exporter.h>
#include <uct/ib_dmabuf/rcache/registrar.h>
#include <unistd.h>
#include <utility>

namespace ucx_ib_dmabuf {

// The contract of a registrar (rcache/registrar.h), for any World with:
//   static std::string missing();   why there is none here; "" if there is one
//   registrar &subject();
//   int dmabuf(size);               a dma-buf of the memory at address()
//   uintptr_t address();
//   bool reaches(handle, address, at); whether the NIC reaches, at the
//                                   address, the dma-buf's byte `at`
//   void mistake();                 announces a call that is wrong on purpose
template <typename World>
class contract_registrar : public ::testing::Test {
protected:
    static constexpr size_t size = 1 << 20;

    // Exports the test's own dma-buf.
    struct given final : dmabuf_source {
        explicit given(int dmabuf) : fd_(dmabuf) {}
        ucs_status_t get(mapping_type, int *fd) override
        {
            *fd = fd_;
            return UCS_OK;
        }
        void drop(mapping_type) noexcept override {}

        const int fd_;
    };
    ucs_status_t reg(int fd, size_t length, void **handle)
    {
        given memory(fd);
        return subject_->reg(memory, 0, address_, length, handle);
    }

    void SetUp() override
    {
        if (!World::missing().empty()) {
            GTEST_SKIP() << World::missing();
        }
        world_   = std::make_unique<World>();
        subject_ = &world_->subject();
        fd_      = world_->dmabuf(size);
        address_ = world_->address();
    }
    void TearDown() override
    {
        if (fd_ >= 0) {
            close(fd_);
        }
    }

    std::unique_ptr<World> world_;
    registrar *subject_ = nullptr;
    uintptr_t address_  = 0;
    int fd_             = -1;
};
TYPED_TEST_SUITE_P(contract_registrar);

TYPED_TEST_P(contract_registrar, the_fd_stays_the_callers)
{
    const int before = count_fds();
    void *handle     = nullptr;

    ASSERT_EQ(UCS_OK, this->reg(this->fd_, this->size, &handle));
    EXPECT_EQ(before, count_fds());
    EXPECT_NE(-1, fcntl(this->fd_, F_GETFD));
    this->subject_->dereg(handle);
    EXPECT_NE(-1, fcntl(this->fd_, F_GETFD));
    EXPECT_EQ(before, count_fds());
}

// The dma-buf may be longer than the registration.
TYPED_TEST_P(contract_registrar, the_memory_is_reached_under_its_addresses)
{
    const size_t at = 5678;
    void *handle    = nullptr;

    for (size_t length : {this->size, size_t{8192}}) {
        ASSERT_EQ(UCS_OK, this->reg(this->fd_, length, &handle));
        EXPECT_TRUE(this->world_->reaches(handle, this->address_ + at, at));
        this->subject_->dereg(handle);
    }
}

TYPED_TEST_P(contract_registrar, registrations_outlive_the_fd)
{
    void *handle = nullptr;

    ASSERT_EQ(UCS_OK, this->reg(this->fd_, this->size, &handle));
    close(this->fd_);
    this->fd_ = -1;
    EXPECT_TRUE(this->world_->reaches(handle, this->address_ + 1, 1));
    this->subject_->dereg(handle);
}

TYPED_TEST_P(contract_registrar, one_fd_is_registered_twice)
{
    void *first  = nullptr;
    void *second = nullptr;

    for (void **handle : {&first, &second}) {
        ASSERT_EQ(UCS_OK, this->reg(this->fd_, this->size, handle));
    }
    EXPECT_NE(first, second);
    this->subject_->dereg(first);
    EXPECT_TRUE(this->world_->reaches(second, this->address_ + 7, 7));
    this->subject_->dereg(second);
}

TYPED_TEST_P(contract_registrar, what_is_no_dmabuf_is_refused)
{
    const int file   = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int closed = dup(this->fd_);
    void *handle     = this;

    close(closed);
    const int before = count_fds();
    for (int fd : {-1, closed, file}) {
        this->world_->mistake();
        EXPECT_NE(UCS_OK, this->reg(fd, this->size, &handle)) << fd;
    }
    EXPECT_EQ(before, count_fds());
    close(file);
    const int gone = std::exchange(this->fd_, -1);
    close(gone);
    this->world_->mistake();
    EXPECT_NE(UCS_OK, this->reg(gone, this->size, &handle));
    EXPECT_EQ(this, handle);
}

TYPED_TEST_P(contract_registrar, ranges_beyond_the_dmabuf_are_refused)
{
    void *handle = this;

    for (size_t length : {this->size + 4096, 2 * this->size, size_t{0}}) {
        this->world_->mistake();
        EXPECT_NE(UCS_OK, this->reg(this->fd_, length, &handle)) << length;
    }
    EXPECT_EQ(this, handle);
}

TYPED_TEST_P(contract_registrar, every_thread_may_register)
{
    in_threads(4, [&](unsigned) {
        for (int times = 0; times < 10; ++times) {
            void *handle = nullptr;
            ASSERT_EQ(UCS_OK, this->reg(this->fd_, this->size, &handle));
            this->subject_->dereg(handle);
        }
    });
}

REGISTER_TYPED_TEST_SUITE_P(contract_registrar, the_fd_stays_the_callers,
                            the_memory_is_reached_under_its_addresses,
                            registrations_outlive_the_fd,
                            one_fd_is_registered_twice,
                            what_is_no_dmabuf_is_refused,
                            ranges_beyond_the_dmabuf_are_refused,
                            every_thread_may_register);

} // namespace ucx_ib_dmabuf
