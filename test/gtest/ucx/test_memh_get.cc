// SPDX-License-Identifier: BSD-3-Clause
//
// Misses of UCP's cache, diverted in a real libucp.
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/ucx/ucp.h>

using namespace ucx_ib_dmabuf;

namespace {

constexpr char name[] = "ucp_memh_get_slow";

memh_request seen;

ucs_status_t see(const memh_request &request) noexcept
{
    seen = request;
    return UCS_ERR_BUSY;
}

ucs_status_t count(void *context, void *address, size_t length,
                   ucs_memory_type_t type, uint64_t md_map, unsigned flags,
                   const char *text, void **memh)
{
    EXPECT_EQ(seen.context, context);
    EXPECT_EQ(seen.mem_type, type);
    EXPECT_EQ(seen.md_map, md_map);
    EXPECT_EQ(seen.flags, flags);
    EXPECT_EQ(seen.name, text);
    *memh = static_cast<char *>(address) + length;
    return UCS_ERR_NO_DEVICE;
}

} // namespace

// UCP's code calls what is in its slot.
TEST(test_memh_get, a_miss_comes_with_all_arguments)
{
    const std::string path =
        std::string(std::getenv("UCX_PREFIX")) + "/lib/libucp.so.0";
    ASSERT_NE(nullptr, dlopen(path.c_str(), RTLD_NOW)) << dlerror();
    const library ucp(path.c_str());
    void **const slot = ucp.import_slot(name);
    int context = 0, memory = 0;
    void *memh = nullptr;

    ASSERT_NE(nullptr, slot);
    void *const original = ucp.own_symbol(name);
    for (int again = 0; again < 2; ++again) {
        ASSERT_STREQ(nullptr, divert_memh_get(ucp, see));
        ASSERT_NE(original, *slot);
    }
    auto *const diverted = reinterpret_cast<ucp_memh_get_function *>(*slot);
    EXPECT_EQ(UCS_ERR_BUSY, diverted(&context, &memory, 5, UCS_MEMORY_TYPE_CUDA,
                                     uint64_t{1} << 60, 7, "text", &memh));
    EXPECT_EQ(original, reinterpret_cast<void *>(seen.ucp));
    EXPECT_EQ(&context, seen.context);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&memory), seen.address);
    EXPECT_EQ(5u, seen.length);
    EXPECT_EQ(UCS_MEMORY_TYPE_CUDA, seen.mem_type);
    EXPECT_EQ(uint64_t{1} << 60, seen.md_map);
    EXPECT_EQ(7u, seen.flags);
    EXPECT_STREQ("text", seen.name);
    EXPECT_EQ(&memh, seen.memh);

    seen.ucp = count;
    EXPECT_EQ(UCS_ERR_NO_DEVICE, seen.pass_on(100, 20));
    EXPECT_EQ(reinterpret_cast<void *>(120), memh);
}

TEST(test_memh_get, other_libraries_are_left_alone)
{
    const library libc = library::around(dlsym(RTLD_DEFAULT, "puts"));

    EXPECT_STREQ(nullptr, divert_memh_get(libc, see));
    EXPECT_EQ(nullptr, libc.import_slot(name));
    EXPECT_EQ(nullptr, library().import_slot(name));
    EXPECT_NE(
        nullptr,
        library::around(reinterpret_cast<void *>(&see)).import_slot("dlopen"));
}

// The program has such a function, which nothing calls by the loader's tables.
extern "C" ucs_status_t ucp_memh_get_slow()
{
    return UCS_OK;
}

const char *version = "1.23.0";

extern "C" const char *ucp_get_version_string()
{
    return version;
}

TEST(test_memh_get, a_libucp_of_an_unknown_version_is_left_alone)
{
    version = "1.24.0";
    EXPECT_STREQ("its arguments may differ in so new a version",
                 divert_memh_get(library::everything(), see));
    version = "1.23.0";
}

TEST(test_memh_get, a_libucp_that_calls_directly_is_left_alone)
{
    EXPECT_STREQ("it calls its own function directly",
                 divert_memh_get(library::everything(), see));
}
