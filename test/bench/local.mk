# SPDX-License-Identifier: BSD-3-Clause
EXTRA_DIST         += test/bench/report.awk test/bench/traces.awk
dist_check_SCRIPTS += test/bench/run test/bench/traces.tap
TAP_TESTS          += test/bench/traces.tap

# What a deregistration costs, in the lab (docs/lab.md); no verdict.
check_PROGRAMS += test/bench/bench_dereg
test_bench_bench_dereg_SOURCES = \
    test/bench/bench_dereg.cc \
    test/lab/soft_roce.cc \
    test/lab/soft_roce.h
test_bench_bench_dereg_LDADD   = $(VERBS_LIBS)

check_PROGRAMS += test/bench/replay
test_bench_replay_SOURCES = \
    test/bench/replay.cc \
    test/bench/trace.cc \
    test/bench/trace.h
test_bench_replay_LDADD   = libib_dmabuf_cache.la -lpthread

if HAVE_BENCHMARK
check_PROGRAMS    += test/bench/bench_cache
# UCX's own cache: its header is not installed.
check_LTLIBRARIES += test/bench/libbench_rcache.la
test_bench_libbench_rcache_la_SOURCES = \
    test/bench/subject.h \
    test/bench/subject_rcache.cc
test_bench_libbench_rcache_la_CPPFLAGS = $(UCX_SRC_CPPFLAGS) $(AM_CPPFLAGS)

test_bench_bench_cache_SOURCES = \
    test/bench/bench_cache.cc \
    test/bench/fake_world.h \
    test/bench/subject.h \
    test/bench/subject_cache.cc
test_bench_bench_cache_LDADD   = test/bench/libbench_rcache.la \
    libib_dmabuf_cache.la $(UCX_LDFLAGS) -lucs -lucm $(BENCHMARK_LIBS)
endif
