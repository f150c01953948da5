// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_CONTRACT_EXPORTER_H_
#define TEST_GTEST_CONTRACT_EXPORTER_H_

#include <common/fds.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <thread>
#include <ucs/memory/memory_type.h>
#include <uct/ib_dmabuf/cache/provider.h>
#include <unistd.h>
#include <vector>

// What cache/provider.h promises of an exporter, for whatever a World makes:
//   static std::string missing();   why there is none here; "": there is
//   exporter &subject();
//   uintptr_t allocate(size);       ordinary memory; 0: not possible
//   void release(address);
//   uintptr_t neighbours(size);     two of that size side by side; 0: no luck
//   uintptr_t map(count);           segments of segment() bytes side by side
//   void remap(address);            other memory into one of them
//   size_t segment();
//   bool shows(fd, offset, address); whether the dma-buf has, at the offset,
//                                   the memory that is at the address now
//   void mistake();                 the next call is one, knowingly
template <typename World>
class contract_exporter : public ::testing::Test {
protected:
    static constexpr size_t mib = 1 << 20;

    void SetUp() override
    {
        if (!World::missing().empty()) {
            GTEST_SKIP() << World::missing();
        }
        world_   = std::make_unique<World>();
        subject_ = &world_->subject();
        page_    = subject_->granularity();
    }

    ucs_status_t describe(uintptr_t address, size_t length)
    {
        return subject_->describe(address, length, &found_);
    }

    std::unique_ptr<World> world_;
    ucx_ib_dmabuf::exporter *subject_ = nullptr;
    ucx_ib_dmabuf::extent found_;
    size_t page_ = 0;
};
TYPED_TEST_SUITE_P(contract_exporter);

// Names of a template's base are not looked up by themselves.
#define WORLD    (*this->world_)
#define SUBJECT  (*this->subject_)
#define FOUND    (this->found_)
#define MIB      (this->mib)
#define DESCRIBE this->describe

TYPED_TEST_P(contract_exporter, granularity_is_of_pages)
{
    EXPECT_EQ(0u, this->page_ & (this->page_ - 1));
    EXPECT_EQ(0u, this->page_ % size_t(sysconf(_SC_PAGESIZE)));
}

TYPED_TEST_P(contract_exporter, the_whole_allocation_is_described)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);

    for (uintptr_t at : {base, base + 12345, base + 4 * MIB - 1}) {
        FOUND = {};
        ASSERT_EQ(UCS_OK, DESCRIBE(at, 1));
        EXPECT_EQ(base, FOUND.base);
        EXPECT_EQ(4 * MIB, FOUND.size);
        EXPECT_NE(0u, FOUND.identity);
        EXPECT_EQ(0, FOUND.device);
        EXPECT_EQ(UCS_MEMORY_TYPE_CUDA, FOUND.memory_type);
        EXPECT_TRUE(FOUND.exportable);
    }
    ASSERT_EQ(UCS_OK, DESCRIBE(base, 4 * MIB));
    WORLD.release(base);
}

TYPED_TEST_P(contract_exporter, ranges_end_with_their_allocation)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);
    const uintptr_t last = base + 4 * MIB - 1;

    EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(base, 0));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(last, 2));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(base, size_t{1} << 46));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(base, SIZE_MAX));
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(last, 0 - last));
    WORLD.release(base);
}

TYPED_TEST_P(contract_exporter, host_memory_is_none_of_its_memory)
{
    std::vector<char> pages(4 * MIB);
    const auto host = reinterpret_cast<uintptr_t>(pages.data());

    for (size_t length : {size_t{0}, size_t{1}, pages.size(), SIZE_MAX}) {
        EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(host, length)) << length;
        EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(0, length)) << length;
        EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(UINTPTR_MAX, length)) << length;
    }
    EXPECT_FALSE(SUBJECT.is_current(host, 1, 1));
}

TYPED_TEST_P(contract_exporter, neighbours_are_two)
{
    for (size_t size : {size_t{512}, 4 * MIB}) {
        const uintptr_t low = WORLD.neighbours(size);
        if (low == 0) {
            continue;
        }
        ASSERT_EQ(UCS_OK, DESCRIBE(low, size));
        EXPECT_EQ(low, FOUND.base);
        const uint64_t first = FOUND.identity;
        ASSERT_EQ(UCS_OK, DESCRIBE(low + size, size));
        EXPECT_EQ(low + size, FOUND.base);
        EXPECT_NE(first, FOUND.identity);
        EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(low, 2 * size));
        EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(low + size - 1, 2));
        WORLD.release(low);
        EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(low + size, size + 1));
        WORLD.release(low + size);
    }
}

TYPED_TEST_P(contract_exporter, segments_are_one_range)
{
    const uintptr_t base = WORLD.map(3);
    const size_t step    = WORLD.segment();

    ASSERT_EQ(UCS_OK, DESCRIBE(base + step, 1));
    EXPECT_EQ(base + step, FOUND.base);
    EXPECT_EQ(step, FOUND.size);
    const uint64_t one = FOUND.identity;
    ASSERT_EQ(UCS_OK, DESCRIBE(base + step + 100, step));
    EXPECT_EQ(base + step, FOUND.base);
    EXPECT_EQ(2 * step, FOUND.size);
    EXPECT_NE(one, FOUND.identity);
    ASSERT_EQ(UCS_OK, DESCRIBE(base, 3 * step));
    EXPECT_EQ(3 * step, FOUND.size);
    EXPECT_EQ(UCS_ERR_INVALID_PARAM, DESCRIBE(base, 3 * step + 1));
    WORLD.release(base);
    EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(base, 1));
}

TYPED_TEST_P(contract_exporter, another_segment_is_another_identity)
{
    const uintptr_t base = WORLD.map(2);
    const size_t step    = WORLD.segment();

    ASSERT_EQ(UCS_OK, DESCRIBE(base, 2 * step));
    const uint64_t both = FOUND.identity;
    ASSERT_EQ(UCS_OK, DESCRIBE(base, step));
    const uint64_t first = FOUND.identity;
    EXPECT_TRUE(SUBJECT.is_current(base, 2 * step, both));
    EXPECT_TRUE(SUBJECT.is_current(base, step, first));
    WORLD.remap(base + step);
    EXPECT_FALSE(SUBJECT.is_current(base, 2 * step, both));
    EXPECT_TRUE(SUBJECT.is_current(base, step, first));
    WORLD.remap(base);
    EXPECT_FALSE(SUBJECT.is_current(base, step, first));
    WORLD.release(base);
}

TYPED_TEST_P(contract_exporter, released_memory_is_none)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);

    ASSERT_EQ(UCS_OK, DESCRIBE(base, MIB));
    const ucx_ib_dmabuf::extent before = FOUND;
    EXPECT_TRUE(SUBJECT.is_current(base, before.size, before.identity));
    EXPECT_TRUE(SUBJECT.is_current(base + MIB, MIB, before.identity));
    EXPECT_FALSE(SUBJECT.is_current(base, MIB, before.identity + 1));
    WORLD.release(base);
    EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(base, MIB));
    EXPECT_FALSE(SUBJECT.is_current(base, MIB, before.identity));

    const uintptr_t again = WORLD.allocate(4 * MIB);
    EXPECT_FALSE(SUBJECT.is_current(base, MIB, before.identity));
    ASSERT_EQ(UCS_OK, DESCRIBE(again, MIB));
    EXPECT_NE(before.identity, FOUND.identity);
    WORLD.release(again);
}

TYPED_TEST_P(contract_exporter, exports_are_the_callers)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);
    const int before     = count_fds();

    for (uintptr_t at : {base, base + 4 * MIB - this->page_, base + MIB}) {
        size_t offset = SIZE_MAX;
        int fd        = -1;
        ASSERT_EQ(UCS_OK, SUBJECT.export_range(at, this->page_, &fd, &offset));
        EXPECT_EQ(before + 1, count_fds());
        EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        EXPECT_TRUE(WORLD.shows(fd, offset, at));
        EXPECT_EQ(0, close(fd));
        EXPECT_EQ(before, count_fds());
    }
    WORLD.release(base);
}

TYPED_TEST_P(contract_exporter, exports_outlive_the_memory)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);
    size_t offset        = SIZE_MAX;
    int fd               = -1;

    ASSERT_EQ(UCS_OK, SUBJECT.export_range(base, 4 * MIB, &fd, &offset));
    WORLD.release(base);
    EXPECT_NE(-1, fcntl(fd, F_GETFD));
    const uintptr_t again = WORLD.allocate(4 * MIB);
    if (again == base) {
        EXPECT_FALSE(WORLD.shows(fd, offset, base)) << "it is other memory";
    }
    WORLD.release(again);
    close(fd);
}

TYPED_TEST_P(contract_exporter, segments_are_exported_at_once)
{
    const uintptr_t base = WORLD.map(3);
    const size_t step    = WORLD.segment();
    size_t offset        = SIZE_MAX;
    int fd               = -1;

    ASSERT_EQ(UCS_OK,
              SUBJECT.export_range(base + step / 2, 2 * step, &fd, &offset));
    EXPECT_TRUE(WORLD.shows(fd, offset, base + step / 2));
    close(fd);
    WORLD.release(base);
}

// Small allocations share pages, and the first on a page may be gone.
TYPED_TEST_P(contract_exporter, pages_of_small_allocations_are_exported)
{
    const uintptr_t low = WORLD.neighbours(512);
    if (low == 0) {
        GTEST_SKIP() << "no neighbours";
    }
    const uintptr_t page = (low + 512) & ~(this->page_ - 1);
    size_t offset        = SIZE_MAX;
    int fd               = -1;

    WORLD.release(low);
    ASSERT_EQ(UCS_OK, SUBJECT.export_range(page, this->page_, &fd, &offset));
    close(fd);
    WORLD.release(low + 512);
}

TYPED_TEST_P(contract_exporter, what_is_not_there_is_not_exported)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);
    const int before     = count_fds();
    size_t offset;
    int fd = -7;

    for (uintptr_t at : {base + 1, base + this->page_ / 2}) {
        WORLD.mistake();
        EXPECT_NE(UCS_OK, SUBJECT.export_range(at, this->page_, &fd, &offset));
    }
    WORLD.mistake();
    EXPECT_NE(UCS_OK, SUBJECT.export_range(base, 100, &fd, &offset));
    WORLD.mistake();
    EXPECT_NE(UCS_OK, SUBJECT.export_range(base, 0, &fd, &offset));
    WORLD.release(base);
    EXPECT_NE(UCS_OK, SUBJECT.export_range(base, MIB, &fd, &offset));
    std::vector<char> pages(4 * this->page_);
    EXPECT_NE(UCS_OK,
              SUBJECT.export_range(
                  (reinterpret_cast<uintptr_t>(pages.data()) + this->page_) &
                      ~(this->page_ - 1),
                  this->page_, &fd, &offset));
    EXPECT_EQ(-7, fd);
    EXPECT_EQ(before, count_fds());
}

TYPED_TEST_P(contract_exporter, every_thread_may_ask)
{
    const uintptr_t base   = WORLD.allocate(4 * MIB);
    const uintptr_t mapped = WORLD.map(2);
    std::vector<std::thread> threads;

    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
            for (uintptr_t at : {base, mapped}) {
                ucx_ib_dmabuf::extent found;
                size_t offset;
                int fd = -1;
                ASSERT_EQ(UCS_OK, SUBJECT.describe(at, MIB, &found));
                EXPECT_TRUE(SUBJECT.is_current(at, MIB, found.identity));
                ASSERT_EQ(UCS_OK, SUBJECT.export_range(at, MIB, &fd, &offset));
                close(fd);
            }
        });
    }
    for (std::thread &one : threads) {
        one.join();
    }
    WORLD.release(base);
    WORLD.release(mapped);
}

REGISTER_TYPED_TEST_SUITE_P(
    contract_exporter, granularity_is_of_pages,
    the_whole_allocation_is_described, ranges_end_with_their_allocation,
    host_memory_is_none_of_its_memory, neighbours_are_two,
    segments_are_one_range, another_segment_is_another_identity,
    released_memory_is_none, exports_are_the_callers,
    exports_outlive_the_memory, segments_are_exported_at_once,
    pages_of_small_allocations_are_exported, what_is_not_there_is_not_exported,
    every_thread_may_ask);

#undef WORLD
#undef SUBJECT
#undef FOUND
#undef MIB
#undef DESCRIBE

#endif
