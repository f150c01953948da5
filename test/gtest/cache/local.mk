# SPDX-License-Identifier: BSD-3-Clause
cache_model_sources = $(fakes_sources) test/gtest/cache/model.cc test/gtest/cache/model_checks.cc

cache_tests = test/gtest/cache/test_cache test/gtest/cache/test_model \
    test/gtest/cache/test_pressure
UNIT_TESTS     += $(cache_tests)
check_PROGRAMS += $(cache_tests)

test_gtest_cache_test_cache_SOURCES = \
    $(fakes_sources) \
    test/gtest/cache/test_cache.cc \
    test/gtest/cache/test_deferred.cc \
    test/gtest/cache/test_failures.cc \
    test/gtest/cache/test_faults.cc \
    test/gtest/cache/test_limits.cc \
    test/gtest/cache/test_kept.cc \
    test/gtest/cache/test_lookup.cc \
    test/gtest/cache/test_nics.cc \
    test/gtest/cache/test_reentry.cc \
    test/gtest/cache/test_segments.cc \
    test/gtest/cache/test_threads.cc
test_gtest_cache_test_cache_CPPFLAGS = $(AM_CPPFLAGS) -DENABLE_ASSERT=1
test_gtest_cache_test_cache_LDADD    = libib_dmabuf_cache_debug.la \
    $(GTEST_LIBS) -lgtest_main

test_gtest_cache_test_model_SOURCES = \
    $(cache_model_sources) \
    test/gtest/cache/model_fork.cc \
    test/gtest/cache/test_model.cc
test_gtest_cache_test_model_LDADD   = libib_dmabuf_cache_debug.la \
    $(GTEST_LIBS) -lgtest_main

test_gtest_cache_test_pressure_SOURCES = \
    $(alloc_faults_sources) \
    $(fakes_sources) \
    test/gtest/cache/test_pressure.cc
test_gtest_cache_test_pressure_LDFLAGS = $(AM_LDFLAGS) $(alloc_faults_ldflags)
test_gtest_cache_test_pressure_LDADD   = libib_dmabuf_cache_debug.la \
    $(GTEST_LIBS) -lgtest_main -ldl

# Built by clang in one go, so that the fuzzer sees the cache's own branches.
cache_fuzz_sources = \
    test/gtest/cache/fuzz_cache.cc \
    test/gtest/cache/model_fork.cc \
    $(cache_model_sources) \
    $(src_uct_ib_dmabuf_cache_sources)
TAP_TESTS         += $(test_gtest_cache_tap)
CLEANFILES        += test/gtest/cache/fuzz_cache
if HAVE_FUZZER
check_DATA += test/gtest/cache/fuzz_cache
endif
test/gtest/cache/fuzz_cache: $(cache_fuzz_sources)
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CLANGXX) -std=gnu++20 -g -O1 \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	    -DENABLE_ASSERT=1 $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) \
	    $$(for f in $(cache_fuzz_sources); do case $$f in *.cc) \
	       echo $(top_srcdir)/$$f;; esac; done) -o $@
