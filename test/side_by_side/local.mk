# SPDX-License-Identifier: BSD-3-Clause
dist_check_SCRIPTS += \
    test/side_by_side/report.awk \
    test/side_by_side/scenarios.sh \
    test/side_by_side/side-by-side \
    test/side_by_side/side_by_side.lab
dist_noinst_DATA += docs/side-by-side.md test/side_by_side/report.tap \
                    test/side_by_side/rows
TAP_TESTS  += test/side_by_side/report.tap

if HAVE_MPI
check_PROGRAMS += test/side_by_side/side_by_side
LAB_TESTS      += test/side_by_side/side_by_side.lab
endif

test_side_by_side_side_by_side_SOURCES = \
    test/bench/trace.cc \
    test/bench/trace.h \
    test/side_by_side/allocator.cc \
    test/side_by_side/allocator.h \
    test/side_by_side/main.cc \
    test/side_by_side/run.cc \
    test/side_by_side/run.h \
    test/side_by_side/scenarios.cc \
    test/side_by_side/times.cc \
    $(mpi_common_sources)
test_side_by_side_side_by_side_CPPFLAGS = $(mpi_cppflags)
test_side_by_side_side_by_side_LDADD    = $(MPI_LIBS) -ldl
