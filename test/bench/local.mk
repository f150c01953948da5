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
check_PROGRAMS += test/bench/bench_md
test_bench_bench_md_SOURCES  = \
    src/uct/ib_dmabuf/md/module.cc \
    test/bench/bench_md.cc \
    test/bench/fake_verbs.cc \
    test/bench/instructions.cc \
    test/bench/instructions.h \
    test/bench/uct_domain.h
test_bench_bench_md_CPPFLAGS = $(md_test_cppflags)
test_bench_bench_md_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS) \
    -L$(UCX_PREFIX)/lib/ucx -R $(UCX_PREFIX)/lib/ucx -export-dynamic
test_bench_bench_md_LDADD    = \
    libib_dmabuf_copy.la libib_dmabuf_cuda.la libib_dmabuf_md.la \
    -luct_ib -luct -lucs -lucm -ldl -lpthread

check_PROGRAMS += test/bench/bench_cache
test_bench_bench_cache_SOURCES = test/bench/bench_cache.cc
test_bench_bench_cache_LDADD   = libib_dmabuf_cache.la -lpthread
