// SPDX-License-Identifier: BSD-3-Clause
//
// Checks that allocations fail on demand: a test of memory pressure that
// injects nothing would always pass.
#include "alloc_faults.h"
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace {

struct alignas(64) aligned_type {
    char bytes[64];
};

volatile size_t size = 100; // so that the compiler removes no allocation
void *volatile kept;

// The first ones return null, or MAP_FAILED, the others throw.
const std::vector<void (*)()> allocations = {
    [] {
        void *memory =
            mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory != MAP_FAILED) {
            munmap(memory, size);
        }
    },
    [] { delete new (std::nothrow) aligned_type; },
    [] { delete[] new (std::nothrow) char[size]; },
    [] { kept = std::make_unique<aligned_type>().get(); },
    [] { kept = std::make_unique<char[]>(size).get(); },
    [] { operator delete(operator new(size)); },
    // The allocating code is in the C++ library, its caller in the program.
    [] { std::string(3, 'a').append(size, 'b'); },
    [] { std::set<int>().insert(1); }};
constexpr size_t first_that_throws = 3;

TEST(test_alloc_faults, every_kind_of_allocation_fails)
{
    for (size_t i = 0; i < allocations.size(); ++i) {
        alloc_faults::plan first;
        bool thrown = false;
        try {
            alloc_faults::armed now(first);
            allocations[i]();
        } catch (const std::bad_alloc &) {
            thrown = true;
        }
        EXPECT_TRUE(first.failed) << i;
        EXPECT_EQ(i >= first_that_throws, thrown) << i;
    }
}

} // namespace
