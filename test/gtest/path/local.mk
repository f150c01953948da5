# SPDX-License-Identifier: BSD-3-Clause
path_tests = test/gtest/path/test_path test/gtest/path/test_reg_methods
check_PROGRAMS += $(path_tests)
UNIT_TESTS     += $(path_tests)
test_gtest_path_test_path_SOURCES = $(alloc_faults_sources) \
    test/gtest/path/fake_nic.cc \
    test/gtest/path/test_loopback.cc \
    test/gtest/path/test_path_check.cc \
    test/gtest/path/test_path_table.cc \
    test/gtest/path/test_probe.cc
test_gtest_path_test_path_LDFLAGS = $(AM_LDFLAGS) $(alloc_faults_ldflags)
test_gtest_path_test_path_LDADD = libib_dmabuf_path.la libib_dmabuf_gpu.la \
    libib_dmabuf_stats.la libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -ldl

test_gtest_path_test_reg_methods_SOURCES = $(verbs_sim_sources) \
    test/gtest/path/test_platforms.cc \
    test/gtest/path/test_reg_methods.cc
test_gtest_path_test_reg_methods_LDADD = libib_dmabuf_path.la libib_dmabuf_gpu.la \
    libib_dmabuf_stats.la libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -ldl
