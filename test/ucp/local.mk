# SPDX-License-Identifier: BSD-3-Clause
# On UCX's public API.
check_PROGRAMS += test/ucp/ucp_tests
LAB_TESTS      += $(test_ucp_lab)

test_ucp_ucp_tests_SOURCES  = $(mpi_common_sources) test/ucp/one_sided.cc \
    test/ucp/peers.cc test/ucp/revoked.cc test/ucp/ucp_tests.cc
test_ucp_ucp_tests_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_ucp_ucp_tests_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_ucp_ucp_tests_LDADD    = -lucp -lucs -ldl
