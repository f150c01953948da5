# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/host/test_mlx5 test/gtest/host/test_ucp
UNIT_TESTS     += test/gtest/host/test_mlx5 test/gtest/host/test_ucp
test_gtest_host_test_ucp_SOURCES = test/gtest/host/test_ucp.cc
test_gtest_host_test_ucp_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_gtest_host_test_ucp_LDADD   = libib_dmabuf_host.la -lgtest_main \
    $(GTEST_LIBS) -ldl
test_gtest_host_test_mlx5_SOURCES = test/gtest/host/test_mlx5.cc
test_gtest_host_test_mlx5_LDADD   = libib_dmabuf_host.la -lgtest_main \
    $(GTEST_LIBS) -ldl
EXTRA_test_gtest_host_test_mlx5_DEPENDENCIES = $(host_drivers)

host_drivers = \
    test/gtest/host/drivers/other.so \
    test/gtest/host/drivers/before_54.so \
    test/gtest/host/drivers/since_54.so \
    test/gtest/host/drivers/since_54_global.so
CLEANFILES += $(host_drivers)

host_driver_link = $(AM_V_CC)$(MKDIR_P) $(@D) && $(CC) $(CFLAGS) -fPIC -shared \
                   -o $@ $(srcdir)/test/gtest/host/driver.c

test/gtest/host/drivers/other.so: test/gtest/host/driver.c
	$(host_driver_link)

test/gtest/host/drivers/before_54.so: test/gtest/host/driver.c
	$(host_driver_link) -DMLX5

test/gtest/host/drivers/since_54.so test/gtest/host/drivers/since_54_global.so: \
    test/gtest/host/driver.c
	$(host_driver_link) -DMLX5 -DDATA_DIRECT
