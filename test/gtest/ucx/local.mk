# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/ucx/test_mlx5 test/gtest/ucx/test_ucp
UNIT_TESTS     += test/gtest/ucx/test_mlx5 test/gtest/ucx/test_ucp
test_gtest_ucx_test_ucp_SOURCES = test/gtest/ucx/test_ucp.cc
test_gtest_ucx_test_ucp_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_gtest_ucx_test_ucp_LDADD   = libib_dmabuf_ucx.la -lgtest_main \
    $(GTEST_LIBS) -ldl
test_gtest_ucx_test_mlx5_SOURCES = test/gtest/ucx/test_mlx5.cc
test_gtest_ucx_test_mlx5_LDADD   = libib_dmabuf_ucx.la -lgtest_main \
    $(GTEST_LIBS) -ldl
EXTRA_test_gtest_ucx_test_mlx5_DEPENDENCIES = $(host_drivers)

host_drivers = \
    test/gtest/ucx/drivers/other.so \
    test/gtest/ucx/drivers/before_54.so \
    test/gtest/ucx/drivers/since_54.so \
    test/gtest/ucx/drivers/since_54_global.so
CLEANFILES += $(host_drivers)

host_driver_link = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(CFLAGS) -fPIC -shared \
                   -o $@ $(srcdir)/test/gtest/ucx/driver.c

test/gtest/ucx/drivers/other.so: test/gtest/ucx/driver.c
	$(host_driver_link)

test/gtest/ucx/drivers/before_54.so: test/gtest/ucx/driver.c
	$(host_driver_link) -DMLX5

test/gtest/ucx/drivers/since_54.so test/gtest/ucx/drivers/since_54_global.so: \
    test/gtest/ucx/driver.c
	$(host_driver_link) -DMLX5 -DDATA_DIRECT
