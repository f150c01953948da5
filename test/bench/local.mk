# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS += $(test_bench_tap)

# UCX with the plug-in or without, over a fake libibverbs, which UCX finds in the
# program.
check_PROGRAMS += test/bench/bench_start test/bench/bench_ucp test/bench/node
bench_sources = test/bench/fake_queues.cc test/bench/fake_verbs.cc test/bench/libraries.cc
bench_cppflags = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
bench_ldflags  = $(AM_LDFLAGS) $(UCX_LDFLAGS) -export-dynamic
bench_libs     = -lucp -lucs -ldl

test_bench_bench_ucp_SOURCES    = $(bench_sources) test/bench/bench_ucp.cc test/bench/steps.cc
test_bench_bench_ucp_CPPFLAGS   = $(bench_cppflags)
test_bench_bench_ucp_LDFLAGS    = $(bench_ldflags)
test_bench_bench_ucp_LDADD      = $(bench_libs)
test_bench_bench_start_SOURCES  = $(bench_sources) test/bench/bench_start.cc
test_bench_bench_start_CPPFLAGS = $(bench_cppflags)
test_bench_bench_start_LDFLAGS  = $(bench_ldflags)
test_bench_bench_start_LDADD    = $(bench_libs)
test_bench_node_SOURCES         = $(bench_sources) test/bench/node.cc
test_bench_node_CPPFLAGS        = $(bench_cppflags)
test_bench_node_LDFLAGS         = $(bench_ldflags)
test_bench_node_LDADD           = $(bench_libs)
