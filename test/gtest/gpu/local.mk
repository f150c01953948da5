# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/gpu/test_cuda
UNIT_TESTS     += test/gtest/gpu/test_cuda
TAP_TESTS      += $(test_gtest_gpu_tap)
test_gtest_gpu_test_cuda_SOURCES = $(test_gtest_gpu_sources) \
    test/common/page_size.cc
# UCX's sources come first, as for the plug-in.
test_gtest_gpu_test_cuda_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_gtest_gpu_test_cuda_LDFLAGS = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_gtest_gpu_test_cuda_LDADD   = libib_dmabuf_cuda.la libib_dmabuf_rcache.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -lucm -lucs -ldl
