# SPDX-License-Identifier: BSD-3-Clause
mpi_lab_tests = \
    test/mpi/messages.lab \
    test/mpi/collectives.lab \
    test/mpi/cuda_aware.lab \
    test/mpi/cuda_aware_hosts.lab \
    test/mpi/allocators.lab \
    test/mpi/windows.lab \
    test/mpi/mpi4py.lab \
    test/mpi/shmem.lab \
    test/mpi/reuse.lab \
    test/mpi/perftest.lab \
    test/mpi/faults.lab \
    test/mpi/variants.lab \
    test/mpi/off.lab \
    test/mpi/host.lab \
    test/mpi/stock.lab \
    test/mpi/floor.lab \
    test/mpi/touched.lab \
    test/mpi/touches.lab \
    test/mpi/stock_gpu.lab \
    test/mpi/clean_root.lab \
    test/mpi/stock_faults.lab \
    test/mpi/plugin_path.lab \
    test/mpi/kept.lab \
    test/mpi/proven.lab \
    test/mpi/mappings.lab \
    test/mpi/pools.lab \
    test/mpi/rails.lab \
    test/mpi/hostile.lab \
    test/mpi/compare.lab \
    test/mpi/demo_verdict.lab \
    test/mpi/two_hosts_rails.lab

TAP_TESTS += test/mpi/compare_table.tap test/mpi/demo.tap
if HAVE_MPI
LAB_TAP_TESTS += test/mpi/elsewhere.tap test/mpi/packages.tap
endif

dist_check_SCRIPTS += \
    $(mpi_lab_tests) \
    test/mpi/compare \
    test/mpi/clean_root.sh \
    test/mpi/compare.awk \
    test/mpi/compare_table.tap \
    test/mpi/demo \
    test/mpi/demo.awk \
    test/mpi/demo.tap \
    test/mpi/elsewhere.tap \
    test/mpi/functions.sh \
    test/mpi/packages.tap \
    test/mpi/run-elsewhere

dist_noinst_DATA += test/mpi/arrays.py test/mpi/shmem.py

mpi_common_sources = \
    test/mpi/buffer.cc \
    test/mpi/buffer.h \
    test/mpi/finalize.h \
    test/mpi/pattern.cc \
    test/mpi/pattern.h

if HAVE_MPI
check_PROGRAMS += test/mpi/mpi_demo test/mpi/mpi_tests \
    test/mpi/mpi_touches
LAB_TESTS      += $(mpi_lab_tests)
endif

mpi_cppflags = $(AM_CPPFLAGS) $(MPI_CPPFLAGS)

test_mpi_mpi_demo_SOURCES  = test/mpi/mpi_demo.cc $(mpi_common_sources)
test_mpi_mpi_demo_CPPFLAGS = $(mpi_cppflags)
test_mpi_mpi_demo_LDADD    = $(MPI_LIBS) -ldl

mpi_tests_sources = \
    test/mpi/allocators.cc \
    test/mpi/collective.cc \
    test/mpi/collective.h \
    test/mpi/collectives.cc \
    test/mpi/compared.cc \
    test/mpi/compared.h \
    test/mpi/datatypes.cc \
    test/mpi/devices.cc \
    test/mpi/edges.cc \
    test/mpi/exchange.cc \
    test/mpi/exchange.h \
    test/mpi/job.h \
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

mpi_touches_sources = \
    test/mpi/collective.cc \
    test/mpi/collective.h \
    test/mpi/mpi_touches.cc \
    test/mpi/touched_calls.cc \
    test/mpi/touched_collectives.cc \
    test/mpi/touches.h \
    $(mpi_common_sources)
test_mpi_mpi_touches_SOURCES  = $(mpi_touches_sources)
test_mpi_mpi_touches_CPPFLAGS = $(mpi_cppflags)
test_mpi_mpi_touches_LDADD    = $(MPI_LIBS) -ldl

# The same for MPICH.
if HAVE_MPICH
check_PROGRAMS += test/mpi/mpich/mpi_demo test/mpi/mpich/mpi_tests \
    test/mpi/mpich/mpi_touches
endif

mpich_cppflags = $(AM_CPPFLAGS) $(MPICH_CPPFLAGS)

test_mpi_mpich_mpi_demo_SOURCES  = test/mpi/mpi_demo.cc $(mpi_common_sources)
test_mpi_mpich_mpi_demo_CPPFLAGS = $(mpich_cppflags)
test_mpi_mpich_mpi_demo_LDADD    = $(MPICH_LIBS) -ldl

test_mpi_mpich_mpi_tests_SOURCES  = $(mpi_tests_sources)
test_mpi_mpich_mpi_tests_CPPFLAGS = $(mpich_cppflags)
test_mpi_mpich_mpi_tests_LDADD    = $(MPICH_LIBS) -ldl

test_mpi_mpich_mpi_touches_SOURCES  = $(mpi_touches_sources)
test_mpi_mpich_mpi_touches_CPPFLAGS = $(mpich_cppflags)
test_mpi_mpich_mpi_touches_LDADD    = $(MPICH_LIBS) -ldl
