# SPDX-License-Identifier: BSD-3-Clause
dist_noinst_DATA   += test/bench/report.awk test/bench/targets \
                      test/bench/traces.awk
dist_check_SCRIPTS += test/bench/run test/bench/run.tap test/bench/traces.tap
TAP_TESTS          += test/bench/run.tap test/bench/traces.tap

check_PROGRAMS += test/bench/replay
test_bench_replay_SOURCES = $(fakes_sources) \
    test/bench/byte_ranges.h \
    test/bench/costs.h \
    test/bench/replay.cc \
    test/bench/trace.cc \
    test/bench/trace.h \
    test/bench/trace_gpus.h \
    test/bench/ucx_policy.cc \
    test/bench/ucx_policy.h
test_bench_replay_LDADD   = libib_dmabuf_cache.la -lpthread

# UCX with the plug-in or without, over a fake libibverbs, which UCX finds in the
# program.
check_PROGRAMS += test/bench/bench_ucp
test_bench_bench_ucp_SOURCES = \
    test/bench/bench_ucp.cc \
    test/bench/fake_queues.cc \
    test/bench/fake_verbs.cc \
    test/bench/steps.cc \
    test/bench/steps.h
test_bench_bench_ucp_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_bench_bench_ucp_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS) -export-dynamic
test_bench_bench_ucp_LDADD    = -lucp -lucs -ldl
