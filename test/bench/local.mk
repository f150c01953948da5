# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS          += $(test_bench_tap)

# UCX with the plug-in or without, over a fake libibverbs, which UCX finds in the
# program.
check_PROGRAMS += test/bench/bench_ucp test/bench/node
test_bench_bench_ucp_SOURCES = \
    test/bench/bench_ucp.cc \
    test/bench/fake_queues.cc \
    test/bench/fake_verbs.cc \
    test/bench/libraries.cc \
    test/bench/steps.cc
test_bench_bench_ucp_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_bench_bench_ucp_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS) -export-dynamic
test_bench_bench_ucp_LDADD    = -lucp -lucs -ldl
test_bench_node_SOURCES = \
    test/bench/fake_queues.cc \
    test/bench/fake_verbs.cc \
    test/bench/node.cc
test_bench_node_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_bench_node_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS) -export-dynamic
test_bench_node_LDADD    = -lucp -lucs -ldl

check_PROGRAMS += test/bench/bench_start
test_bench_bench_start_SOURCES = \
    test/bench/bench_start.cc \
    test/bench/fake_queues.cc \
    test/bench/fake_verbs.cc \
    test/bench/libraries.cc
test_bench_bench_start_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_bench_bench_start_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS) -export-dynamic
test_bench_bench_start_LDADD    = -lucp -lucs -ldl
