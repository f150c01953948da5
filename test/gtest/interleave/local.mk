# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
PLAIN_TESTS    += test/gtest/interleave/test_interleave
check_PROGRAMS += test/gtest/interleave/test_interleave

# With the cache itself, whose steps are the scheduler's.
test_gtest_interleave_test_interleave_SOURCES = $(cache_sources) \
    $(fakes_sources) \
    test/gtest/interleave/explore.cc \
    test/gtest/interleave/explore.h \
    test/gtest/interleave/machine.cc \
    test/gtest/interleave/machine.h \
    test/gtest/interleave/mutants.h \
    test/gtest/interleave/reclaim_scenarios.cc \
    test/gtest/interleave/region_scenarios.cc \
    test/gtest/interleave/scenarios.cc \
    test/gtest/interleave/scenarios.h \
    test/gtest/interleave/schedule.cc \
    test/gtest/interleave/schedule.h \
    test/gtest/interleave/steps.h \
    test/gtest/interleave/test_interleave.cc \
    test/gtest/interleave/test_machine.cc \
    test/gtest/interleave/world.cc \
    test/gtest/interleave/world.h
test_gtest_interleave_test_interleave_CPPFLAGS = $(AM_CPPFLAGS) \
    -I$(top_srcdir)/test/gtest -DUCX_IB_DMABUF_EXPLORE
test_gtest_interleave_test_interleave_LDADD = $(GTEST_LIBS) -lgtest_main
endif
