# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_PROGRAMS += test/gtest/verbs/test_ladder
UNIT_TESTS     += test/gtest/verbs/test_ladder
endif
test_gtest_verbs_test_ladder_SOURCES = \
    $(verbs_sim_sources) \
    test/gtest/verbs/ladder_nic.h \
    test/gtest/verbs/memfd_gpu.h \
    test/gtest/verbs/test_judge.cc \
    test/gtest/verbs/test_ladder.cc \
    test/gtest/verbs/test_platforms.cc
test_gtest_verbs_test_ladder_LDADD = libib_dmabuf_cache.la libib_dmabuf_verbs.la \
    libib_dmabuf_report.la -lgtest_main $(GTEST_LIBS) -ldl
