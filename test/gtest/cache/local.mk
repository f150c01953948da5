# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
UNIT_TESTS     += test/gtest/cache/test_cache
check_PROGRAMS += test/gtest/cache/test_cache
test_gtest_cache_test_cache_SOURCES = \
    test/gtest/cache/fakes.cc \
    test/gtest/cache/fakes.h \
    test/gtest/cache/fixture.h \
    test/gtest/cache/test_cache.cc \
    test/gtest/cache/test_threads.cc
test_gtest_cache_test_cache_LDADD = libib_dmabuf_cache_debug.la \
    $(GTEST_LIBS) -lgtest_main
endif
