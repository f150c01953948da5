# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/cuda_copy/test_cuda_copy test/gtest/cuda_copy/test_component
UNIT_TESTS     += test/gtest/cuda_copy/test_cuda_copy test/gtest/cuda_copy/test_component

test_gtest_cuda_copy_test_cuda_copy_SOURCES  = \
    test/gtest/cuda_copy/test_cuda_copy.cc \
    test/gtest/cuda_copy/test_start.cc
test_gtest_cuda_copy_test_cuda_copy_LDADD    = $(UCX_LDFLAGS) libib_dmabuf_cuda_copy.la \
    libib_dmabuf_cuda.la libib_dmabuf_rcache.la libib_dmabuf_report.la \
    -lgtest_main $(GTEST_LIBS) -lucm -lucs -ldl

# Over UCX's own libuct, without its CUDA modules.
test_gtest_cuda_copy_test_component_SOURCES  = \
    test/gtest/cuda_copy/test_component.cc \
    test/gtest/cuda_copy/test_registrable.cc
test_gtest_cuda_copy_test_component_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_gtest_cuda_copy_test_component_LDADD    = $(UCX_LDFLAGS) libib_dmabuf_cuda_copy.la \
    libib_dmabuf_ucx.la $(GTEST_LIBS) -luct -lucm -lucs -ldl
