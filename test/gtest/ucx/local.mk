# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/ucx/test_ucx
UNIT_TESTS     += test/gtest/ucx/test_ucx
test_gtest_ucx_test_ucx_SOURCES = \
    test/gtest/ucx/test_library.cc test/gtest/ucx/test_memh_get.cc \
    test/gtest/ucx/test_mlx5.cc test/gtest/ucx/test_ucp.cc
# The program is what has a driver's and a libucp's symbols.
test_gtest_ucx_test_ucx_LDFLAGS = $(AM_LDFLAGS) -export-dynamic
test_gtest_ucx_test_ucx_LDADD   = libib_dmabuf_ucx.la -lgtest_main \
    $(GTEST_LIBS) -ldl
