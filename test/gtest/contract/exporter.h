// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <common/elsewhere.h>
#include <common/fds.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <uct/ib_dmabuf/gpu/exporter.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace ucx_ib_dmabuf {

// What the contract of an exporter (gpu/exporter.h) is tested with.
class exporter_world {
public:
    virtual ~exporter_world() = default;

    virtual exporter &subject() = 0;
    // Ordinary memory.
    virtual uintptr_t allocate(size_t size) = 0;
    virtual void release(uintptr_t address) = 0;
    // Two adjacent allocations; 0 if none were found.
    virtual uintptr_t neighbours(size_t size) = 0;
    // Adjacent segments of segment() bytes.
    virtual uintptr_t map(unsigned count) = 0;
    // Replaces the memory of a segment.
    virtual void remap(uintptr_t address) = 0;
    virtual size_t segment() const { return 2 << 20; }
    // Whether the dma-buf begins with the memory that is at the address now.
    virtual bool shows(int fd, uintptr_t address) = 0;
    // Announces a call that is wrong on purpose.
    virtual void mistake() {}
};

// The parameter makes the world; nullptr: this machine has none.
class contract_exporter
    : public testing::TestWithParam<std::unique_ptr<exporter_world> (*)()> {
protected:
    static constexpr size_t mib = 1 << 20;

    void SetUp() override
    {
        world_ = GetParam()();
        if (world_ == nullptr) {
            GTEST_SKIP() << "there is no CUDA driver here, real or simulated";
        }
        subject_ = &world_->subject();
        page_    = subject_->granularity();
    }

    // Returns the identity of the memory at the address.
    uint64_t expect_memory(uintptr_t at, uintptr_t base, size_t size,
                           bool is_segment = false)
    {
        allocation found;

        EXPECT_EQ(UCS_OK, subject_->describe(at, &found));
        EXPECT_EQ(base, found.base);
        EXPECT_EQ(size, found.size);
        EXPECT_EQ(0, found.device);
        EXPECT_EQ(is_segment, found.joins);
        EXPECT_NE(0u, found.identity);
        EXPECT_TRUE(subject_->is_current(at, found.identity));
        EXPECT_FALSE(subject_->is_current(at, found.identity + 1));
        return found.identity;
    }
    uint64_t expect_segment(uintptr_t at)
    {
        return expect_memory(at, at, world_->segment(), true);
    }
    void expect_none(uintptr_t at)
    {
        allocation found;
        EXPECT_EQ(UCS_ERR_NO_ELEM, subject_->describe(at, &found)) << at;
    }
    void expect_no_export(uintptr_t address, size_t length)
    {
        const int before = count_fds();
        int fd           = -7;

        EXPECT_NE(UCS_OK, subject_->export_range(address, length, &fd));
        EXPECT_EQ(-7, fd);
        EXPECT_EQ(before, count_fds());
    }

    std::unique_ptr<exporter_world> world_;
    exporter *subject_ = nullptr;
    size_t page_       = 0;
};

TEST_P(contract_exporter, granularity_is_of_pages)
{
    EXPECT_EQ(0u, page_ & (page_ - 1));
    EXPECT_EQ(0u, page_ % size_t(sysconf(_SC_PAGESIZE)));
}

TEST_P(contract_exporter, the_whole_allocation_is_described)
{
    const uintptr_t base = world_->allocate(4 * mib);

    for (size_t at : {size_t{0}, size_t{12345}, 4 * mib - 1}) {
        expect_memory(base + at, base, 4 * mib);
    }
    world_->release(base);
}

TEST_P(contract_exporter, host_memory_is_none_of_its_memory)
{
    std::vector<char> pages(4 * mib);
    const auto host = reinterpret_cast<uintptr_t>(pages.data());

    for (uintptr_t at : {host, host + 4 * mib - 1, uintptr_t{0}, UINTPTR_MAX}) {
        expect_none(at);
        EXPECT_FALSE(subject_->is_current(at, 1)) << at;
    }
}

TEST_P(contract_exporter, neighbours_are_two)
{
    for (size_t size : {size_t{512}, 4 * mib}) {
        const uintptr_t low = world_->neighbours(size);
        if (low == 0) {
            continue;
        }
        const uintptr_t high  = low + size;
        const uint64_t first  = expect_memory(high - 1, low, size);
        const uint64_t second = expect_memory(high, high, size);
        EXPECT_NE(first, second);
        EXPECT_FALSE(subject_->is_current(high, first));
        world_->release(low);
        expect_none(high - 1);
        EXPECT_TRUE(subject_->is_current(high, second));
        world_->release(high);
    }
}

TEST_P(contract_exporter, segments_are_described_one_by_one)
{
    constexpr unsigned count = 3;
    const uintptr_t base     = world_->map(count);
    const size_t step        = world_->segment();
    std::set<uint64_t> seen;

    for (unsigned i = 0; i < count; ++i) {
        const uintptr_t low     = base + i * step;
        const uint64_t identity = expect_segment(low);
        EXPECT_EQ(identity, expect_memory(low + step - 1, low, step, true));
        seen.insert(identity);
    }
    EXPECT_EQ(count, seen.size());
    world_->release(base);
    expect_none(base);
}

TEST_P(contract_exporter, another_segment_is_another_identity)
{
    const uintptr_t base  = world_->map(2);
    const uintptr_t high  = base + world_->segment();
    const uint64_t first  = expect_segment(base);
    const uint64_t second = expect_segment(high);

    world_->remap(high);
    EXPECT_FALSE(subject_->is_current(high, second));
    EXPECT_FALSE(subject_->is_current(high + 1, second));
    EXPECT_TRUE(subject_->is_current(base, first));
    EXPECT_NE(second, expect_segment(high));
    world_->remap(base);
    EXPECT_FALSE(subject_->is_current(base, first));
    world_->release(base);
}

TEST_P(contract_exporter, released_memory_is_none)
{
    const uintptr_t base  = world_->allocate(4 * mib);
    const uint64_t before = expect_memory(base, base, 4 * mib);

    for (size_t at : {mib, 4 * mib - 1}) {
        EXPECT_TRUE(subject_->is_current(base + at, before));
    }
    world_->release(base);
    expect_none(base);
    EXPECT_FALSE(subject_->is_current(base, before));

    const uintptr_t again = world_->allocate(4 * mib);
    EXPECT_FALSE(subject_->is_current(base, before));
    EXPECT_NE(before, expect_memory(again, again, 4 * mib));
    world_->release(again);
}

TEST_P(contract_exporter, exports_are_the_callers)
{
    const uintptr_t base = world_->allocate(4 * mib);
    const int before     = count_fds();

    for (uintptr_t at : {base, base + 4 * mib - page_, base + mib}) {
        int fd = -1;
        ASSERT_EQ(UCS_OK, subject_->export_range(at, page_, &fd));
        EXPECT_EQ(before + 1, count_fds());
        EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        EXPECT_TRUE(world_->shows(fd, at));
        EXPECT_EQ(0, close(fd));
        EXPECT_EQ(before, count_fds());
    }
    world_->release(base);
}

TEST_P(contract_exporter, exports_outlive_the_memory)
{
    const uintptr_t base = world_->allocate(4 * mib);
    int fd               = -1;

    ASSERT_EQ(UCS_OK, subject_->export_range(base, 4 * mib, &fd));
    // A GPU's dma-buf cannot always be read.
    const uintptr_t other = world_->allocate(4 * mib);
    const bool can_look   = !world_->shows(fd, other);
    world_->release(base);
    EXPECT_NE(-1, fcntl(fd, F_GETFD));
    const uintptr_t again = world_->allocate(4 * mib);
    if (again == base && can_look) {
        EXPECT_FALSE(world_->shows(fd, base)) << "it is other memory";
    }
    world_->release(again);
    world_->release(other);
    close(fd);
}

TEST_P(contract_exporter, segments_are_exported_at_once)
{
    const uintptr_t base = world_->map(3);
    const size_t step    = world_->segment();
    int fd               = -1;

    ASSERT_EQ(UCS_OK, subject_->export_range(base + step / 2, 2 * step, &fd));
    EXPECT_TRUE(world_->shows(fd, base + step / 2));
    close(fd);
    world_->release(base);
}

// Small allocations share pages, and the first one of a page may be released.
TEST_P(contract_exporter, pages_of_small_allocations_are_exported)
{
    const uintptr_t low = world_->neighbours(512);
    if (low == 0) {
        GTEST_SKIP() << "no two allocations lie side by side here";
    }
    const uintptr_t page = (low + 512) & ~(page_ - 1);
    int fd               = -1;

    world_->release(low);
    ASSERT_EQ(UCS_OK, subject_->export_range(page, page_, &fd));
    close(fd);
    world_->release(low + 512);
}

TEST_P(contract_exporter, what_is_not_there_is_not_exported)
{
    const uintptr_t base = world_->allocate(4 * mib);
    std::vector<char> pages(4 * page_);
    const auto host = reinterpret_cast<uintptr_t>(pages.data());

    for (const auto &[at, length] :
         {std::pair{base + 1, page_}, std::pair{base + page_ / 2, page_},
          std::pair{base, size_t{100}}, std::pair{base, size_t{0}}}) {
        world_->mistake();
        expect_no_export(at, length);
    }
    world_->release(base);
    expect_no_export(base, mib);
    expect_no_export((host + page_) & ~(page_ - 1), page_);
}

TEST_P(contract_exporter, what_goes_beyond_the_memory_is_not_exported)
{
    const size_t size = 4 * mib;

    for (size_t gone : {size_t{0}, size}) {
        const uintptr_t low = world_->neighbours(size);
        if (low == 0) {
            GTEST_SKIP() << "no two allocations lie side by side here";
        }
        const uintptr_t border = low + size;
        world_->release(low + gone);
        expect_no_export(low, 2 * size);
        expect_no_export(border - page_, 2 * page_);
        world_->release(border - gone);
    }
}

TEST_P(contract_exporter, every_thread_may_ask)
{
    const uintptr_t base   = world_->allocate(4 * mib);
    const uintptr_t mapped = world_->map(2);

    in_threads(4, [&](unsigned) {
        for (uintptr_t at : {base, mapped}) {
            allocation found;
            int fd = -1;
            ASSERT_EQ(UCS_OK, subject_->describe(at, &found));
            EXPECT_TRUE(subject_->is_current(at, found.identity));
            ASSERT_EQ(UCS_OK, subject_->export_range(at, mib, &fd));
            close(fd);
        }
    });
    world_->release(base);
    world_->release(mapped);
}

} // namespace ucx_ib_dmabuf
