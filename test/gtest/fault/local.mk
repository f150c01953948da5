# SPDX-License-Identifier: BSD-3-Clause
if HAVE_GTEST
check_LTLIBRARIES += test/gtest/fault/libfake_mpi.la test/gtest/fault/libfake_tool.la
check_PROGRAMS    += test/gtest/fault/test_fault
PLAIN_TESTS       += test/gtest/fault/test_fault
endif

test_gtest_fault_libfake_mpi_la_SOURCES = test/gtest/fault/fake_mpi.c
test_gtest_fault_libfake_mpi_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version \
                                          -shared -rpath /nowhere

test_gtest_fault_libfake_tool_la_SOURCES = test/gtest/fault/fake_tool.c
test_gtest_fault_libfake_tool_la_LIBADD  = test/gtest/fault/libfake_mpi.la
test_gtest_fault_libfake_tool_la_LDFLAGS = $(AM_LDFLAGS) -avoid-version \
                                           -shared -rpath /nowhere

test_gtest_fault_test_fault_SOURCES = test/gtest/fault/faults.h \
    test/gtest/fault/test_fault.cc test/gtest/fault/test_harm.cc
# The handlers here are called on small stacks, where the loader would take 3 KiB to bind what
# they call.
test_gtest_fault_test_fault_LDFLAGS = $(AM_LDFLAGS) -Wl,-z,now
test_gtest_fault_test_fault_LDADD   = test/gtest/fault/libfake_tool.la \
    test/gtest/fault/libfake_mpi.la libib_dmabuf_fault.la -lgtest_main $(GTEST_LIBS)
