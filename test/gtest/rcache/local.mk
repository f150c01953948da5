# SPDX-License-Identifier: BSD-3-Clause
cache_model_sources = $(fakes_sources) test/gtest/rcache/model.cc test/gtest/rcache/model_checks.cc

cache_tests = test/gtest/rcache/test_rcache test/gtest/rcache/test_model \
    test/gtest/rcache/test_pressure
UNIT_TESTS     += $(cache_tests)
check_PROGRAMS += $(cache_tests)

test_gtest_rcache_test_rcache_SOURCES = \
    $(fakes_sources) \
    test/gtest/rcache/test_rcache.cc \
    test/gtest/rcache/test_deferred.cc \
    test/gtest/rcache/test_failures.cc \
    test/gtest/rcache/test_limits.cc \
    test/gtest/rcache/test_kept.cc \
    test/gtest/rcache/test_nics.cc \
    test/gtest/rcache/test_predictor.cc \
    test/gtest/rcache/test_prefetch.cc \
    test/gtest/rcache/test_prefetch_thread.cc \
    test/gtest/rcache/test_reentry.cc \
    test/gtest/rcache/test_threads.cc
test_gtest_rcache_test_rcache_LDADD    = libib_dmabuf_rcache.la \
    $(GTEST_LIBS) -lgtest_main

test_gtest_rcache_test_model_SOURCES = \
    $(cache_model_sources) \
    test/gtest/rcache/test_model.cc
test_gtest_rcache_test_model_LDADD   = libib_dmabuf_rcache.la \
    $(GTEST_LIBS) -lgtest_main

test_gtest_rcache_test_pressure_SOURCES = \
    $(alloc_faults_sources) \
    $(fakes_sources) \
    test/gtest/rcache/test_pressure.cc
test_gtest_rcache_test_pressure_LDFLAGS = $(AM_LDFLAGS) $(alloc_faults_ldflags)
test_gtest_rcache_test_pressure_LDADD   = libib_dmabuf_rcache.la \
    $(GTEST_LIBS) -lgtest_main -ldl

# Built by clang in one go, so that the fuzzer sees the cache's own branches.
cache_fuzz_sources = \
    test/gtest/rcache/fuzz_rcache.cc \
    $(cache_model_sources) \
    $(src_uct_ib_dmabuf_rcache_sources) $(src_uct_ib_dmabuf_gpu_sources)
TAP_TESTS         += $(test_gtest_rcache_tap)
CLEANFILES        += test/gtest/rcache/fuzz_rcache
if HAVE_FUZZER
check_DATA += test/gtest/rcache/fuzz_rcache
endif
test/gtest/rcache/fuzz_rcache: $(cache_fuzz_sources)
	$(AM_V_CXX)$(MKDIR_P) $(@D) && $(CLANGXX) -std=gnu++20 -g -O1 \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	    $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) \
	    $$(for f in $(cache_fuzz_sources); do case $$f in *.cc) \
	       echo $(top_srcdir)/$$f;; esac; done) -o $@
