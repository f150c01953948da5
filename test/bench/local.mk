# SPDX-License-Identifier: BSD-3-Clause
dist_noinst_DATA   += test/bench/report.awk test/bench/targets \
                      test/bench/traces.awk
dist_check_SCRIPTS += test/bench/run test/bench/run.tap test/bench/traces.tap
TAP_TESTS          += test/bench/run.tap test/bench/traces.tap

# What a deregistration costs, in the lab (docs/lab.md); no verdict.
check_PROGRAMS += test/bench/bench_dereg
test_bench_bench_dereg_SOURCES = \
    test/bench/bench_dereg.cc \
    test/lab/soft_roce.cc \
    test/lab/soft_roce.h
test_bench_bench_dereg_LDADD   = $(VERBS_LIBS)

check_PROGRAMS += test/bench/replay
test_bench_replay_SOURCES = $(fakes_sources) \
    test/bench/byte_ranges.h \
    test/bench/costs.cc \
    test/bench/costs.h \
    test/bench/replay.cc \
    test/bench/trace.cc \
    test/bench/trace.h \
    test/bench/trace_gpus.h \
    test/bench/ucx_policy.cc \
    test/bench/ucx_policy.h
test_bench_replay_LDADD   = libib_dmabuf_cache.la -lpthread

# The memory domain with the real uct_ib over a fake libibverbs.
bench_md_sources = \
    src/uct/ib_dmabuf/md/module.cc \
    test/bench/bench_md.cc \
    test/bench/fake_verbs.cc \
    test/bench/instructions.cc \
    test/bench/instructions.h \
    test/bench/uct_domain.h
bench_md_ldflags = $(AM_LDFLAGS) $(UCX_LDFLAGS) -L$(UCX_PREFIX)/lib/ucx \
    -R $(UCX_PREFIX)/lib/ucx -export-dynamic
bench_md_ldadd   = \
    libib_dmabuf_copy.la libib_dmabuf_cuda.la libib_dmabuf_md.la \
    -luct_ib -luct -lucs -lucm -ldl -lpthread

check_PROGRAMS += test/bench/bench_md
test_bench_bench_md_SOURCES  = $(bench_md_sources)
test_bench_bench_md_CPPFLAGS = $(md_test_cppflags)
test_bench_bench_md_LDFLAGS  = $(bench_md_ldflags)
test_bench_bench_md_LDADD    = $(bench_md_ldadd)

# The same with other caches: linked before the library, whose objects are then
# not needed.
check_PROGRAMS += test/bench/bench_md_mutex test/bench/bench_md_shared_mutex
test_bench_bench_md_mutex_SOURCES         = $(bench_md_sources) \
    test/bench/simple_cache.cc
test_bench_bench_md_mutex_CPPFLAGS        = $(md_test_cppflags)
test_bench_bench_md_mutex_LDFLAGS         = $(bench_md_ldflags)
test_bench_bench_md_mutex_LDADD           = $(bench_md_ldadd)
test_bench_bench_md_shared_mutex_SOURCES  = $(bench_md_sources) \
    test/bench/simple_cache.cc
test_bench_bench_md_shared_mutex_CPPFLAGS = $(md_test_cppflags) \
    -DSIMPLE_CACHE_SHARED
test_bench_bench_md_shared_mutex_LDFLAGS  = $(bench_md_ldflags)
test_bench_bench_md_shared_mutex_LDADD    = $(bench_md_ldadd)

# The same with hits that are not counted: they are inline in the memory domain,
# which is not taken from the library then.
check_PROGRAMS += test/bench/bench_md_uncounted
test_bench_bench_md_uncounted_SOURCES  = $(bench_md_sources) \
    src/uct/ib_dmabuf/md/memory_domain.cc
test_bench_bench_md_uncounted_CPPFLAGS = $(md_test_cppflags) -DUNCOUNTED_HITS
test_bench_bench_md_uncounted_LDFLAGS  = $(bench_md_ldflags)
test_bench_bench_md_uncounted_LDADD    = $(bench_md_ldadd)

check_PROGRAMS += test/bench/bench_cache
test_bench_bench_cache_SOURCES = test/bench/bench_cache.cc
test_bench_bench_cache_CPPFLAGS = $(md_test_cppflags)
test_bench_bench_cache_LDADD   = \
    libib_dmabuf_cache.la $(UCX_LDFLAGS) -lucs -lucm -lpthread
