// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/elsewhere.h>
#include <common/fds.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <uct/ib_dmabuf/gpu/exporter.h>
#include <uct/ib_dmabuf/rcache/registrar.h>
#include <unistd.h>
#include <vector>

namespace ucx_ib_dmabuf {

// The contract of an exporter (gpu/exporter.h), for any World with:
//   static std::string missing();   why there is none here; "" if there is one
//   exporter &subject();
//   uintptr_t allocate(size);       ordinary memory; 0 if not possible
//   void release(address);
//   uintptr_t neighbours(size);     two adjacent ones; 0 if none were found
//   uintptr_t map(count);           adjacent segments of segment() bytes
//   void remap(address);            replaces the memory of a segment
//   size_t segment();
//   bool shows(fd, address);        whether the dma-buf begins with the memory
//                                   that is at the address now
//   void mistake();                 announces a call that is wrong on purpose
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

    ucs_status_t describe(uintptr_t address)
    {
        return subject_->describe(address, &found_);
    }

    std::unique_ptr<World> world_;
    exporter *subject_ = nullptr;
    allocation found_;
    size_t page_ = 0;
};
TYPED_TEST_SUITE_P(contract_exporter);

// Names of a dependent base need "this->".
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
        ASSERT_EQ(UCS_OK, DESCRIBE(at));
        EXPECT_EQ(base, FOUND.base);
        EXPECT_EQ(4 * MIB, FOUND.size);
        EXPECT_NE(0u, FOUND.identity);
        EXPECT_EQ(0, FOUND.device);
        EXPECT_FALSE(FOUND.joins);
    }
    WORLD.release(base);
}

TYPED_TEST_P(contract_exporter, host_memory_is_none_of_its_memory)
{
    std::vector<char> pages(4 * MIB);
    const auto host = reinterpret_cast<uintptr_t>(pages.data());

    for (uintptr_t at : {host, host + 4 * MIB - 1, uintptr_t{0}, UINTPTR_MAX}) {
        EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(at)) << at;
        EXPECT_FALSE(SUBJECT.is_current(at, 1)) << at;
    }
}

TYPED_TEST_P(contract_exporter, neighbours_are_two)
{
    for (size_t size : {size_t{512}, 4 * MIB}) {
        const uintptr_t low = WORLD.neighbours(size);
        if (low == 0) {
            continue;
        }
        ASSERT_EQ(UCS_OK, DESCRIBE(low + size - 1));
        EXPECT_EQ(low, FOUND.base);
        EXPECT_EQ(size, FOUND.size);
        EXPECT_FALSE(FOUND.joins);
        const uint64_t first = FOUND.identity;
        ASSERT_EQ(UCS_OK, DESCRIBE(low + size));
        EXPECT_EQ(low + size, FOUND.base);
        EXPECT_EQ(size, FOUND.size);
        EXPECT_FALSE(FOUND.joins);
        EXPECT_NE(first, FOUND.identity);
        EXPECT_TRUE(SUBJECT.is_current(low + size - 1, first));
        EXPECT_FALSE(SUBJECT.is_current(low + size, first));
        WORLD.release(low);
        EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(low + size - 1));
        EXPECT_TRUE(SUBJECT.is_current(low + size, FOUND.identity));
        WORLD.release(low + size);
    }
}

TYPED_TEST_P(contract_exporter, segments_are_described_one_by_one)
{
    constexpr unsigned count = 3;
    const uintptr_t base     = WORLD.map(count);
    const size_t step        = WORLD.segment();
    std::set<uint64_t> seen;

    for (unsigned i = 0; i < count; ++i) {
        const uintptr_t low = base + i * step;
        for (uintptr_t at : {low, low + step - 1}) {
            FOUND = {};
            ASSERT_EQ(UCS_OK, DESCRIBE(at));
            EXPECT_EQ(low, FOUND.base);
            EXPECT_EQ(step, FOUND.size);
            EXPECT_EQ(0, FOUND.device);
            EXPECT_TRUE(FOUND.joins);
            EXPECT_TRUE(SUBJECT.is_current(at, FOUND.identity));
            seen.insert(FOUND.identity);
        }
    }
    EXPECT_EQ(count, seen.size());
    EXPECT_EQ(0u, seen.count(0));
    WORLD.release(base);
    EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(base));
}

TYPED_TEST_P(contract_exporter, another_segment_is_another_identity)
{
    const uintptr_t base = WORLD.map(2);
    const uintptr_t high = base + WORLD.segment();

    ASSERT_EQ(UCS_OK, DESCRIBE(base));
    const uint64_t first = FOUND.identity;
    ASSERT_EQ(UCS_OK, DESCRIBE(high));
    const uint64_t second = FOUND.identity;
    WORLD.remap(high);
    EXPECT_FALSE(SUBJECT.is_current(high, second));
    EXPECT_FALSE(SUBJECT.is_current(high + 1, second));
    EXPECT_TRUE(SUBJECT.is_current(base, first));
    ASSERT_EQ(UCS_OK, DESCRIBE(high));
    EXPECT_NE(second, FOUND.identity);
    WORLD.remap(base);
    EXPECT_FALSE(SUBJECT.is_current(base, first));
    WORLD.release(base);
}

TYPED_TEST_P(contract_exporter, released_memory_is_none)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);

    ASSERT_EQ(UCS_OK, DESCRIBE(base));
    const uint64_t before = FOUND.identity;
    for (uintptr_t at : {base, base + MIB, base + 4 * MIB - 1}) {
        EXPECT_TRUE(SUBJECT.is_current(at, before));
        EXPECT_FALSE(SUBJECT.is_current(at, before + 1));
    }
    WORLD.release(base);
    EXPECT_EQ(UCS_ERR_NO_ELEM, DESCRIBE(base));
    EXPECT_FALSE(SUBJECT.is_current(base, before));

    const uintptr_t again = WORLD.allocate(4 * MIB);
    EXPECT_FALSE(SUBJECT.is_current(base, before));
    ASSERT_EQ(UCS_OK, DESCRIBE(again));
    EXPECT_NE(before, FOUND.identity);
    WORLD.release(again);
}

TYPED_TEST_P(contract_exporter, exports_are_the_callers)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);
    const int before     = count_fds();

    for (uintptr_t at : {base, base + 4 * MIB - this->page_, base + MIB}) {
        int fd = -1;
        ASSERT_EQ(UCS_OK, SUBJECT.export_range(at, this->page_, &fd));
        EXPECT_EQ(before + 1, count_fds());
        EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        EXPECT_TRUE(WORLD.shows(fd, at));
        EXPECT_EQ(0, close(fd));
        EXPECT_EQ(before, count_fds());
    }
    WORLD.release(base);
}

TYPED_TEST_P(contract_exporter, exports_outlive_the_memory)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);
    int fd               = -1;

    ASSERT_EQ(UCS_OK, SUBJECT.export_range(base, 4 * MIB, &fd));
    // A GPU's dma-buf cannot always be read.
    const uintptr_t other = WORLD.allocate(4 * MIB);
    const bool can_look   = !WORLD.shows(fd, other);
    WORLD.release(base);
    EXPECT_NE(-1, fcntl(fd, F_GETFD));
    const uintptr_t again = WORLD.allocate(4 * MIB);
    if (again == base && can_look) {
        EXPECT_FALSE(WORLD.shows(fd, base)) << "it is other memory";
    }
    WORLD.release(again);
    WORLD.release(other);
    close(fd);
}

TYPED_TEST_P(contract_exporter, segments_are_exported_at_once)
{
    const uintptr_t base = WORLD.map(3);
    const size_t step    = WORLD.segment();
    int fd               = -1;

    ASSERT_EQ(UCS_OK, SUBJECT.export_range(base + step / 2, 2 * step, &fd));
    EXPECT_TRUE(WORLD.shows(fd, base + step / 2));
    close(fd);
    WORLD.release(base);
}

// Small allocations share pages, and the first one of a page may be released.
TYPED_TEST_P(contract_exporter, pages_of_small_allocations_are_exported)
{
    const uintptr_t low = WORLD.neighbours(512);
    if (low == 0) {
        GTEST_SKIP() << "no neighbours";
    }
    const uintptr_t page = (low + 512) & ~(this->page_ - 1);
    int fd               = -1;

    WORLD.release(low);
    ASSERT_EQ(UCS_OK, SUBJECT.export_range(page, this->page_, &fd));
    close(fd);
    WORLD.release(low + 512);
}

TYPED_TEST_P(contract_exporter, what_is_not_there_is_not_exported)
{
    const uintptr_t base = WORLD.allocate(4 * MIB);
    const int before     = count_fds();
    int fd               = -7;

    for (uintptr_t at : {base + 1, base + this->page_ / 2}) {
        WORLD.mistake();
        EXPECT_NE(UCS_OK, SUBJECT.export_range(at, this->page_, &fd));
    }
    WORLD.mistake();
    EXPECT_NE(UCS_OK, SUBJECT.export_range(base, 100, &fd));
    WORLD.mistake();
    EXPECT_NE(UCS_OK, SUBJECT.export_range(base, 0, &fd));
    WORLD.release(base);
    EXPECT_NE(UCS_OK, SUBJECT.export_range(base, MIB, &fd));
    std::vector<char> pages(4 * this->page_);
    EXPECT_NE(UCS_OK,
              SUBJECT.export_range(
                  (reinterpret_cast<uintptr_t>(pages.data()) + this->page_) &
                      ~(this->page_ - 1),
                  this->page_, &fd));
    EXPECT_EQ(-7, fd);
    EXPECT_EQ(before, count_fds());
}

TYPED_TEST_P(contract_exporter, what_goes_beyond_the_memory_is_not_exported)
{
    const size_t size = 4 * MIB;

    for (size_t gone : {size_t{0}, size}) {
        const uintptr_t low = WORLD.neighbours(size);
        if (low == 0) {
            GTEST_SKIP() << "no neighbours";
        }
        const uintptr_t border = low + size;
        const int before       = count_fds();
        int fd                 = -7;

        WORLD.release(low + gone);
        EXPECT_NE(UCS_OK, SUBJECT.export_range(low, 2 * size, &fd));
        EXPECT_NE(UCS_OK, SUBJECT.export_range(border - this->page_,
                                               2 * this->page_, &fd));
        EXPECT_EQ(-7, fd);
        EXPECT_EQ(before, count_fds());
        WORLD.release(border - gone);
    }
}

TYPED_TEST_P(contract_exporter, every_thread_may_ask)
{
    const uintptr_t base   = WORLD.allocate(4 * MIB);
    const uintptr_t mapped = WORLD.map(2);

    in_threads(4, [&](unsigned) {
        for (uintptr_t at : {base, mapped}) {
            allocation found;
            int fd = -1;
            ASSERT_EQ(UCS_OK, SUBJECT.describe(at, &found));
            EXPECT_TRUE(SUBJECT.is_current(at, found.identity));
            ASSERT_EQ(UCS_OK, SUBJECT.export_range(at, MIB, &fd));
            close(fd);
        }
    });
    WORLD.release(base);
    WORLD.release(mapped);
}

REGISTER_TYPED_TEST_SUITE_P(
    contract_exporter, granularity_is_of_pages,
    the_whole_allocation_is_described, host_memory_is_none_of_its_memory,
    neighbours_are_two, segments_are_described_one_by_one,
    another_segment_is_another_identity, released_memory_is_none,
    exports_are_the_callers, exports_outlive_the_memory,
    segments_are_exported_at_once, pages_of_small_allocations_are_exported,
    what_is_not_there_is_not_exported,
    what_goes_beyond_the_memory_is_not_exported, every_thread_may_ask);

#undef WORLD
#undef SUBJECT
#undef FOUND
#undef MIB
#undef DESCRIBE

} // namespace ucx_ib_dmabuf
