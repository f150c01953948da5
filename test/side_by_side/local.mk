# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS  += $(test_side_by_side_tap)

if HAVE_MPI
check_PROGRAMS += test/side_by_side/side_by_side
LAB_TESTS      += $(test_side_by_side_lab)
endif

test_side_by_side_side_by_side_SOURCES = \
    $(test_side_by_side_sources) \
    $(mpi_common_sources)
test_side_by_side_side_by_side_CPPFLAGS = $(mpi_cppflags)
test_side_by_side_side_by_side_LDADD    = $(MPI_LIBS) -ldl
