# SPDX-License-Identifier: BSD-3-Clause
# Which protocol UCX chooses for GPU memory, by the speed of the link.
check_PROGRAMS += test/protocols/operations
test_protocols_operations_SOURCES  = test/protocols/operations.cc test/ucp/peers.cc $(mpi_common_sources)
test_protocols_operations_CPPFLAGS = $(UCX_CPPFLAGS) $(AM_CPPFLAGS)
test_protocols_operations_LDFLAGS  = $(AM_LDFLAGS) $(UCX_LDFLAGS)
test_protocols_operations_LDADD    = -lucp -lucs -ldl
LAB_TESTS += $(test_protocols_lab)
