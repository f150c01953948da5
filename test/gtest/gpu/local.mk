# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/gpu/test_cuda
UNIT_TESTS     += test/gtest/gpu/test_cuda
TAP_TESTS      += $(test_gtest_gpu_tap)
test_gtest_gpu_test_cuda_SOURCES = $(test_gtest_gpu_sources) \
    test/common/page_size.cc
test_gtest_gpu_test_cuda_LDADD = $(UCX_LDFLAGS) libib_dmabuf_cuda.la libib_dmabuf_rcache.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -lucm -lucs -ldl
