// SPDX-License-Identifier: BSD-3-Clause
//
// A device uses the libmlx5 functions of the library that drives it, whatever
// its name, even if several such libraries are loaded.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <string>
#include <uct/ib_dmabuf/ucx/verbs.h>

namespace {

using namespace ucx_ib_dmabuf;

class driver {
public:
    driver(const char *name, int mode)
        : handle_(dlopen(
              (std::string("test/gtest/ucx/drivers/") + name + ".so").c_str(),
              RTLD_NOW | mode))
    {
        EXPECT_NE(nullptr, handle_) << dlerror();
    }
    ~driver() { dlclose(handle_); }
    driver(const driver &)            = delete;
    driver &operator=(const driver &) = delete;

    void *symbol(const char *name) const { return dlsym(handle_, name); }

    mlx5_functions functions() const
    {
        ibv_context context{};

        context.ops.poll_cq =
            reinterpret_cast<decltype(context.ops.poll_cq)>(symbol("poll_cq"));
        return look_up_mlx5(context);
    }

private:
    void *handle_;
};

template <class Function>
const void *address(Function *function)
{
    return reinterpret_cast<const void *>(function);
}

// uct_ib_mlx5 may be linked with a libmlx5 that is visible globally.
class test_mlx5 : public ::testing::Test {
protected:
    const driver seen_by_all_{"since_54_global", RTLD_GLOBAL};
    const driver other_{"other", RTLD_LOCAL};
    const driver old_{"before_54", RTLD_LOCAL};
    const driver new_{"since_54", RTLD_LOCAL};
};

// Other drivers have none; those before rdma-core 54 lack Data Direct's.
TEST_F(test_mlx5, each_has_its_own)
{
    EXPECT_EQ(nullptr, other_.symbol("mlx5dv_is_supported"));
    EXPECT_EQ(nullptr, old_.symbol("mlx5dv_get_data_direct_sysfs_path"));
    for (const driver *each : {&other_, &old_, &new_, &seen_by_all_}) {
        const mlx5_functions found = each->functions();
        EXPECT_EQ(each->symbol("mlx5dv_is_supported"),
                  address(found.is_supported));
        EXPECT_EQ(each->symbol("mlx5dv_get_data_direct_sysfs_path"),
                  address(found.get_data_direct_sysfs_path));
    }
    EXPECT_NE(address(new_.functions().is_supported),
              address(seen_by_all_.functions().is_supported));
}

// The context of a tool or of a test's kernel may lack driver functions.
TEST_F(test_mlx5, a_context_without_functions_has_none)
{
    EXPECT_EQ(nullptr, address(look_up_mlx5(ibv_context{}).is_supported));
}

} // namespace
