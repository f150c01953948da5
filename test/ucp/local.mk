# SPDX-License-Identifier: BSD-3-Clause
# On UCX's public API.
ucp_lab_tests = $(test_ucp_lab)

check_PROGRAMS += test/ucp/one_sided test/ucp/releases test/ucp/revoked \
    test/ucp/two_copies
LAB_TESTS      += $(ucp_lab_tests)

ucp_peers_sources = $(mpi_common_sources) test/ucp/peers.cc

test_ucp_one_sided_SOURCES = test/ucp/one_sided.cc $(ucp_peers_sources)
test_ucp_one_sided_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_ucp_one_sided_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_ucp_one_sided_LDADD    = -lucp -lucs -ldl

test_ucp_releases_SOURCES = test/ucp/releases.cc $(ucp_peers_sources)
test_ucp_releases_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_ucp_releases_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_ucp_releases_LDADD    = -lucp -lucs -ldl

test_ucp_revoked_SOURCES = test/ucp/revoked.cc $(ucp_peers_sources)
test_ucp_revoked_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_ucp_revoked_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_ucp_revoked_LDADD    = -lucp -lucs -ldl

# Opens the copies that it is told to.
test_ucp_two_copies_SOURCES  = test/ucp/two_copies.cc
test_ucp_two_copies_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_ucp_two_copies_LDADD    = -ldl
