# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/gtest/metrics/test_metrics
UNIT_TESTS     += test/gtest/metrics/test_metrics
endif
test_gtest_metrics_test_metrics_SOURCES = \
    test/gtest/metrics/prometheus.cc \
    test/gtest/metrics/prometheus.h \
    test/gtest/metrics/test_file.cc \
    test/gtest/metrics/test_live.cc \
    test/gtest/metrics/test_pairs.cc \
    test/gtest/metrics/test_render.cc
test_gtest_metrics_test_metrics_LDADD = \
    libib_dmabuf_metrics.la -lgtest_main $(GTEST_LIBS)
