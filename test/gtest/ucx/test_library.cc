// SPDX-License-Identifier: BSD-3-Clause
//
// Memory that may be anything is read and tested.
#include <array>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <uct/ib_dmabuf/ucx/library.h>

namespace ucx_ib_dmabuf {
namespace {

constexpr size_t page = 65536; // or a part of it

class test_library : public testing::Test {
protected:
    void SetUp() override { ASSERT_NE(MAP_FAILED, static_cast<void *>(pages)); }
    ~test_library() override { munmap(pages, 3 * page); }

    void *word(size_t number) const
    {
        return reinterpret_cast<char *>(pages) + number;
    }

    void **const pages =
        static_cast<void **>(mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void **const end = pages + 2 * page / sizeof(void *); // may be protected
};

TEST_F(test_library, a_table_is_read_as_far_as_there_is_memory)
{
    constexpr size_t count = 3, many = 600; // more than in 4 KiB
    std::array<void *, many> found{};

    for (size_t i = 1; i <= many; ++i) {
        *(end - i) = word(i);
    }
    ASSERT_EQ(0, mprotect(end, page, PROT_NONE));
    read_table(end - count, found);
    EXPECT_EQ(word(3), found[0]);
    EXPECT_EQ(word(1), found[2]);
    EXPECT_EQ(nullptr, found[3]);
    read_table(end - many, found);
    for (size_t i = 0; i < many; ++i) {
        ASSERT_EQ(word(many - i), found[i]);
    }
}

TEST_F(test_library, only_memory_that_can_be_written_is_writable)
{
    *pages = word(7);
    EXPECT_TRUE(is_writable(pages));
    EXPECT_EQ(word(7), *pages);
    for (const int protection : {PROT_READ, PROT_NONE}) {
        ASSERT_EQ(0, mprotect(end, page, protection));
        EXPECT_FALSE(is_writable(end));
    }
}

} // namespace
} // namespace ucx_ib_dmabuf
