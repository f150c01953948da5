# SPDX-License-Identifier: BSD-3-Clause
# The cache's world, simulated: tables.
fakes_sources = test/common/fakes.cc

# For tests of memory pressure: these sources, and these flags for the linker.
alloc_faults_sources = test/common/alloc_faults.cc
alloc_faults_ldflags = -Wl,--wrap=mmap

if HAVE_GTEST
check_PROGRAMS += test/common/test_alloc_faults
UNIT_TESTS     += test/common/test_alloc_faults
endif
test_common_test_alloc_faults_SOURCES = $(alloc_faults_sources) test/common/test_alloc_faults.cc
test_common_test_alloc_faults_LDFLAGS = \
    $(AM_LDFLAGS) $(alloc_faults_ldflags)
test_common_test_alloc_faults_LDADD   = -lgtest_main $(GTEST_LIBS) -ldl
