// SPDX-License-Identifier: BSD-3-Clause
//
// Checks that allocations fail on demand: a test of memory pressure that
// injects nothing would always pass.
#include "alloc_faults.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>
#include <sys/mman.h>

namespace {

struct alignas(64) aligned_type {
    char bytes[64];
};

bool fails(void (*allocation)())
{
    alloc_faults::plan first;
    alloc_faults::armed now(first);

    allocation();
    return first.failed;
}

template <typename Allocation>
bool throws(Allocation &&allocation)
{
    alloc_faults::plan first;
    try {
        alloc_faults::armed now(first);
        allocation();
    } catch (const std::bad_alloc &) {
        return first.failed;
    }
    return false;
}

volatile size_t size = 100; // so that the compiler removes no allocation
void *volatile kept;

void drop_from_ucp_cache(void *memory)
{
    kept = memory;
    free(kept);
}

TEST(test_alloc_faults, every_kind_of_malloc_fails)
{
    EXPECT_TRUE(fails([] { drop_from_ucp_cache(malloc(size)); }));
    EXPECT_TRUE(fails([] { drop_from_ucp_cache(calloc(1, size)); }));
    EXPECT_TRUE(fails([] { drop_from_ucp_cache(realloc(nullptr, size)); }));
    EXPECT_TRUE(
        fails([] { drop_from_ucp_cache(aligned_alloc(64, 2 * size)); }));
    EXPECT_TRUE(fails([] {
        void *memory = nullptr;
        if (posix_memalign(&memory, 64, size) == 0) {
            free(memory);
        }
    }));
    EXPECT_TRUE(fails([] {
        void *memory =
            mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED) {
            munmap(memory, size);
        }
    }));
}

TEST(test_alloc_faults, every_kind_of_new_fails)
{
    EXPECT_TRUE(fails([] { delete new (std::nothrow) aligned_type; }));
    EXPECT_TRUE(fails([] { delete[] new (std::nothrow) char[size]; }));
    EXPECT_TRUE(throws([] { auto made = std::make_unique<aligned_type>(); }));
    EXPECT_TRUE(throws([] { auto made = std::make_unique<char[]>(size); }));
    EXPECT_TRUE(throws([] { operator delete(operator new(size)); }));
}

// The allocating code is in the C++ library, its caller in the program.
TEST(test_alloc_faults, what_the_cpp_library_allocates_fails)
{
    EXPECT_TRUE(throws([] {
        std::string text(3, 'a');
        text.append(size, 'b');
    }));
    EXPECT_TRUE(throws([] { std::set<int>().insert(1); }));
}

} // namespace
