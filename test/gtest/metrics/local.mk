# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/metrics/test_metrics
UNIT_TESTS     += test/gtest/metrics/test_metrics
test_gtest_metrics_test_metrics_SOURCES = $(test_gtest_metrics_sources)
test_gtest_metrics_test_metrics_LDADD = \
    libib_dmabuf_metrics.la -lgtest_main $(GTEST_LIBS)
