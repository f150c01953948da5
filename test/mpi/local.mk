# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS += test/mpi/demo.tap

# Contents of messages, also for other programs.
mpi_common_sources = test/mpi/buffer.cc

if HAVE_MPI
check_PROGRAMS += test/mpi/mpi_tests
LAB_TESTS      += $(test_mpi_lab)
LAB_TAP_TESTS  += test/mpi/elsewhere.tap test/mpi/packages.tap
endif
mpi_cppflags                = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)
test_mpi_mpi_tests_SOURCES  = $(test_mpi_sources)
test_mpi_mpi_tests_CPPFLAGS = $(mpi_cppflags)
test_mpi_mpi_tests_LDADD    = $(MPI_LIBS) -ldl

# The same for MPICH.
if HAVE_MPICH
check_PROGRAMS += test/mpi/mpich/mpi_tests
endif
test_mpi_mpich_mpi_tests_SOURCES  = $(test_mpi_sources)
test_mpi_mpich_mpi_tests_CPPFLAGS = $(AM_CPPFLAGS) $(MPICH_CPPFLAGS)
test_mpi_mpich_mpi_tests_LDADD    = $(MPICH_LIBS) -ldl
