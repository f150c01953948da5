// SPDX-License-Identifier: BSD-3-Clause
//
// A device uses the libmlx5 functions of the library that drives it, whatever
// that library's name. This program acts as a libmlx5 that is visible globally.
#include <cstdlib>
#include <gtest/gtest.h>
#include <uct/ib_dmabuf/ucx/verbs.h>

using ucx_ib_dmabuf::mlx5_functions;

extern "C" {
int poll_cq(ibv_cq *, int, ibv_wc *)
{
    return 0;
}
bool mlx5dv_is_supported(ibv_device *)
{
    return true;
}
int mlx5dv_get_data_direct_sysfs_path(ibv_context *, char *, size_t)
{
    return 0;
}
}

namespace {

// Looks up the functions of a device with this function of its driver.
template <class Function>
mlx5_functions functions_of(Function *of_driver)
{
    ibv_context context{};

    context.ops.poll_cq =
        reinterpret_cast<decltype(context.ops.poll_cq)>(of_driver);
    return ucx_ib_dmabuf::look_up_mlx5(context);
}

TEST(test_mlx5, a_device_has_its_drivers_functions)
{
    const mlx5_functions found = functions_of(poll_cq);

    EXPECT_EQ(mlx5dv_is_supported, found.is_supported);
    EXPECT_EQ(mlx5dv_get_data_direct_sysfs_path,
              found.get_data_direct_sysfs_path);
}

// The driver may be another one, here libc. A tool's context, or a test's, has
// no functions at all.
TEST(test_mlx5, another_drivers_device_has_none)
{
    for (const mlx5_functions &found :
         {functions_of(abort), functions_of<void()>(nullptr)}) {
        EXPECT_EQ(nullptr, found.is_supported);
        EXPECT_EQ(nullptr, found.get_data_direct_sysfs_path);
    }
}

} // namespace
