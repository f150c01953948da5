# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/copy/test_copier test/gtest/copy/test_component
UNIT_TESTS     += test/gtest/copy/test_copier test/gtest/copy/test_component

test_gtest_copy_test_copier_SOURCES  = test/gtest/copy/test_copier.cc test/gtest/copy/test_start.cc
test_gtest_copy_test_copier_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_copy_test_copier_LDADD    = libib_dmabuf_copy.la \
    libib_dmabuf_cuda.la libib_dmabuf_cache.la libib_dmabuf_report.la \
    -lgtest_main $(GTEST_LIBS) -lucm -lucs -ldl

# Over UCX's own libuct, without its CUDA modules.
test_gtest_copy_test_component_SOURCES  = test/gtest/copy/test_component.cc
test_gtest_copy_test_component_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_gtest_copy_test_component_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_copy_test_component_LDADD    = libib_dmabuf_host.la \
    $(GTEST_LIBS) -luct -lucm -lucs -ldl
