# SPDX-License-Identifier: BSD-3-Clause
TAP_TESTS += test/mpi/demo.tap
if HAVE_MPI
LAB_TAP_TESTS += test/mpi/elsewhere.tap test/mpi/packages.tap
endif

mpi_common_sources = test/mpi/buffer.cc test/mpi/pattern.cc

if HAVE_MPI
check_PROGRAMS += test/mpi/mpi_demo test/mpi/mpi_tests
LAB_TESTS      += $(test_mpi_lab)
endif

mpi_cppflags = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)

test_mpi_mpi_demo_SOURCES  = test/mpi/mpi_demo.cc $(mpi_common_sources)
test_mpi_mpi_demo_CPPFLAGS = $(mpi_cppflags)
test_mpi_mpi_demo_LDADD    = $(MPI_LIBS) -ldl

mpi_tests_sources = \
    test/mpi/allocators.cc \
    test/mpi/collective.cc \
    test/mpi/collectives.cc \
    test/mpi/compared.cc \
    test/mpi/datatypes.cc \
    test/mpi/devices.cc \
    test/mpi/edges.cc \
    test/mpi/exchange.cc \
    test/mpi/lifetime.cc \
    test/mpi/messages.cc \
    test/mpi/patterns.cc \
    test/mpi/pinned.cc \
    test/mpi/reuse.cc \
    test/mpi/storm.cc \
    test/mpi/tests.cc \
    test/mpi/windows.cc \
    $(mpi_common_sources)
test_mpi_mpi_tests_SOURCES  = $(mpi_tests_sources)
test_mpi_mpi_tests_CPPFLAGS = $(mpi_cppflags)
test_mpi_mpi_tests_LDADD    = $(MPI_LIBS) -ldl

# The same for MPICH.
if HAVE_MPICH
check_PROGRAMS += test/mpi/mpich/mpi_demo test/mpi/mpich/mpi_tests
endif

mpich_cppflags = $(AM_CPPFLAGS) $(MPICH_CPPFLAGS)

test_mpi_mpich_mpi_demo_SOURCES  = test/mpi/mpi_demo.cc $(mpi_common_sources)
test_mpi_mpich_mpi_demo_CPPFLAGS = $(mpich_cppflags)
test_mpi_mpich_mpi_demo_LDADD    = $(MPICH_LIBS) -ldl

test_mpi_mpich_mpi_tests_SOURCES  = $(mpi_tests_sources)
test_mpi_mpich_mpi_tests_CPPFLAGS = $(mpich_cppflags)
test_mpi_mpich_mpi_tests_LDADD    = $(MPICH_LIBS) -ldl
