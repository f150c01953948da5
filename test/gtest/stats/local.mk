# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/stats/test_metrics
UNIT_TESTS     += test/gtest/stats/test_metrics
test_gtest_stats_test_metrics_SOURCES = $(test_gtest_stats_sources)
test_gtest_stats_test_metrics_LDADD = \
    libib_dmabuf_stats.la -lgtest_main $(GTEST_LIBS)
