# SPDX-License-Identifier: BSD-3-Clause
check_PROGRAMS += test/gtest/verbs/test_ladder
UNIT_TESTS     += test/gtest/verbs/test_ladder
test_gtest_verbs_test_ladder_SOURCES = $(verbs_sim_sources) $(test_gtest_verbs_sources)
test_gtest_verbs_test_ladder_LDADD = libib_dmabuf_cache.la libib_dmabuf_verbs.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -ldl
